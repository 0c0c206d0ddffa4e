#include "src/models/dense_layers.h"

#include <ATen/Parallel.h>
#include <ATen/TracerMode.h>
#include <torch/csrc/autograd/custom_function.h>

#include "shoal/core/error.h"
#include "src/models/layers.h"

namespace shoal {

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::tensor_list;

// x W' + b, with or without tanh, as one autograd node with the tanh of the acting kernel: for
// small layers the overhead of a node exceeds its arithmetic.
class DenseLayer : public torch::autograd::Function<DenseLayer> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& weight,
                            const at::Tensor& bias, bool tanh) {
    auto y = at::addmm(bias, x, weight.t());
    if (tanh) take_tanh(y);
    context->save_for_backward({x, weight, y});
    context->saved_data["tanh"] = tanh;
    return y;
  }

  static tensor_list backward(AutogradContext* context, tensor_list gradient) {
    const auto saved = context->get_saved_variables();
    const auto &x = saved[0], &weight = saved[1], &y = saved[2];
    auto g = gradient[0].contiguous();
    if (context->saved_data["tanh"].toBool()) g = at::tanh_backward(g, y);
    return {context->needs_input_grad(0) ? at::mm(g, weight) : at::Tensor(),
            at::mm(g.t(), x),
            column_sums(g),
            {}};
  }

 private:
  static void take_tanh(const at::Tensor& y) {
    constexpr std::int64_t kWorthAThread = 32'768;
    auto* values = y.data_ptr<float>();
    at::parallel_for(0, y.numel(), kWorthAThread, [&](std::int64_t from, std::int64_t to) {
      tanh_in_place(values + from, to - from);
    });
  }

  static at::Tensor column_sums(const at::Tensor& g) {
    const auto rows = g.size(0), columns = g.size(1);
    auto sums = at::zeros({columns}, g.options());
    auto* to = sums.data_ptr<float>();
    const auto* from = g.const_data_ptr<float>();
    for (std::int64_t r = 0; r < rows; ++r)
      for (std::int64_t c = 0; c < columns; ++c) to[c] += from[r * columns + c];
    return sums;
  }
};

torch::nn::Linear make_head(torch::nn::Module& owner, const std::string& name, std::int64_t in,
                            std::int64_t out, double gain, const at::Generator& generator) {
  return owner.register_module(name, initialised(torch::nn::Linear(in, out), gain, generator));
}

}  // namespace

DenseLayers make_dense_layers(torch::nn::Module& owner, const std::string& name, std::int64_t in,
                              const std::vector<std::int64_t>& units,
                              const at::Generator& generator) {
  DenseLayers layers;
  for (const auto out : units) {
    layers.push_back(
        make_head(owner, name + std::to_string(layers.size()), in, out, kReluGain, generator));
    in = out;
  }
  return layers;
}

at::Tensor through(const DenseLayers& layers, at::Tensor x, bool tanh_last) {
  for (std::size_t l = 0; l < layers.size(); ++l) {
    const auto &weight = layers[l]->weight, &bias = layers[l]->bias;
    const bool tanh = tanh_last || l + 1 < layers.size();
    // An export traces operations that TorchScript supports.
    const bool traced = at::tracer::impl::is_dispatch_enabled();
    if (x.is_cpu() && weight.scalar_type() == at::kFloat && !traced) {
      x = DenseLayer::apply(x, weight, bias, tanh);
    } else {
      x = at::linear(x, weight, bias);
      if (tanh) x = x.tanh();
    }
  }
  return x;
}

void add_layers(MlpKernel& kernel, const DenseLayers& layers, bool tanh_last) {
  for (std::size_t l = 0; l < layers.size(); ++l) {
    const auto weight = layers[l]->weight.detach().to(at::kCPU).contiguous();
    const auto bias = layers[l]->bias.detach().to(at::kCPU).contiguous();
    kernel.add_layer(weight.data_ptr<float>(), bias.data_ptr<float>(), weight.size(1),
                     weight.size(0), tanh_last || l + 1 < layers.size());
  }
}

ModelOut DenseHeads::forward(const at::Tensor& features) const {
  const auto x = through(trunk, features, true);
  return {through(policy, x, false), through(value, x, false).squeeze(1), {}};
}

DenseHeads make_dense_heads(torch::nn::Module& owner, std::int64_t in, std::int64_t policy_size,
                            const ModelOptions& options, const at::Generator& generator) {
  require_units(options.hidden);
  const auto last = options.hidden.empty() ? in : options.hidden.back();
  const auto layers = [&](const char* name) {
    return make_dense_layers(owner, name, in, options.hidden, generator);
  };
  DenseHeads heads;
  if (options.shared_trunk) {
    heads.trunk = layers("trunk");
  } else {
    heads.policy = layers("policy");
    heads.value = layers("value");
  }
  heads.policy.push_back(make_head(owner, "policy_head", last, policy_size, 0.01, generator));
  heads.value.push_back(make_head(owner, "value_head", last, 1, 1.0, generator));
  return heads;
}

void require_units(const std::vector<std::int64_t>& hidden) {
  for (const auto units : hidden)
    require(units > 0, "model.hidden: found a layer of {} units, expected at least 1", units);
}

}  // namespace shoal
