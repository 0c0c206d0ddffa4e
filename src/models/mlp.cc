#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/TracerMode.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/nn/modules/linear.h>

#include "shoal/core/error.h"
#include "src/models/flat_input.h"
#include "src/models/layers.h"
#include "src/models/mlp_kernel.h"
#include "src/models/models.h"
#include "src/models/trunk.h"

namespace shoal {

namespace {

using torch::nn::Linear;

using Layers = std::vector<Linear>;
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

at::Tensor through(const Layers& layers, at::Tensor x, bool tanh_last) {
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

void add_layers(MlpKernel& kernel, const Layers& layers, bool tanh_last) {
  for (std::size_t l = 0; l < layers.size(); ++l) {
    const auto weight = layers[l]->weight.detach().to(at::kCPU).contiguous();
    const auto bias = layers[l]->bias.detach().to(at::kCPU).contiguous();
    kernel.add_layer(weight.data_ptr<float>(), bias.data_ptr<float>(), weight.size(1),
                     weight.size(0), tanh_last || l + 1 < layers.size());
  }
}

// Tanh layers with a policy head and a value head, on one trunk or two.
class Mlp : public ActorCriticModel {
 public:
  Mlp(const NamedSpecs& observation, std::int64_t policy_size, const ModelOptions& options,
      at::Generator generator)
      : flat(observation) {
    auto make = [&](const std::string& name, std::int64_t in, std::int64_t out, double gain) {
      return register_module(name, initialised(Linear(in, out), gain, generator));
    };
    auto make_trunk = [&](const std::string& name) {
      Layers layers;
      auto in = flat.width();
      for (auto units : options.hidden) {
        layers.push_back(make(name + std::to_string(layers.size()), in, units, kReluGain));
        in = units;
      }
      return layers;
    };
    const auto last = options.hidden.empty() ? flat.width() : options.hidden.back();
    if (options.shared_trunk) {
      trunk = make_trunk("trunk");
    } else {
      policy = make_trunk("policy");
      value = make_trunk("value");
    }
    policy.push_back(make("policy_head", last, policy_size, 0.01));
    value.push_back(make("value_head", last, 1, 1.0));
  }

  ModelOut forward(const ModelIn& in) override {
    const auto x = through(trunk, flat(in.observation), true);
    return {through(policy, x, false), through(value, x, false).squeeze(1), {}};
  }

  std::unique_ptr<ActingNetwork> make_acting_network(Precision) const override;

  FlatInput flat;
  Layers trunk, policy, value;
};

// The same network on the row-wise kernel. Always float32, because lower precision saves no time
// for small layers.
class MlpActing : public ActingNetwork {
 public:
  explicit MlpActing(const Mlp& model) : model_(model) { refresh(); }

  void refresh() override {
    for (auto* kernel : {&trunk_, &policy_, &value_}) kernel->clear();
    add_layers(trunk_, model_.trunk, true);
    add_layers(policy_, model_.policy, false);
    add_layers(value_, model_.value, false);
  }

  std::string description() const override {
    return fmt::format("row-wise kernel, float32, {}", MlpKernel::instructions());
  }

 private:
  // Smallest number of rows for another thread: about 10 microseconds of work.
  static constexpr std::int64_t kGrain = 64;

  void compute(const Observations& observation, at::Tensor& policy, at::Tensor& value,
               std::int64_t) override {
    const auto x = model_.flat(observation).contiguous();
    const auto* input = x.const_data_ptr<float>();
    auto *policy_out = policy.data_ptr<float>(), *value_out = value.data_ptr<float>();
    const auto policy_size = policy.size(1), width = x.size(1);
    at::parallel_for(0, x.size(0), kGrain, [&](std::int64_t from, std::int64_t to) {
      run_rows(input + from * width, to - from, policy_out + from * policy_size, value_out + from);
    });
  }

  void run_rows(const float* x, std::int64_t rows, float* policy, float* value) const {
    thread_local std::vector<float> hidden;
    if (!trunk_.empty()) {
      hidden.resize(static_cast<std::size_t>(rows * trunk_.out()));
      trunk_.run(x, rows, hidden.data());
      x = hidden.data();
    }
    policy_.run(x, rows, policy);
    value_.run(x, rows, value);
  }

  const Mlp& model_;
  MlpKernel trunk_, policy_, value_;
};

std::unique_ptr<ActingNetwork> Mlp::make_acting_network(Precision) const {
  return std::make_unique<MlpActing>(*this);
}

// The hidden layers alone.
class MlpTrunk : public Trunk {
 public:
  MlpTrunk(const NamedSpecs& observation, const std::vector<std::int64_t>& hidden,
           const at::Generator& generator)
      : flat_(observation), width_(flat_.width()) {
    for (const auto units : hidden) {
      const auto name = std::to_string(layers_.size());
      layers_.push_back(
          register_module(name, initialised(Linear(width_, units), kReluGain, generator)));
      width_ = units;
    }
  }

  std::int64_t width() const override { return width_; }
  at::Tensor forward(const Observations& observation) override {
    return through(layers_, flat_(observation), true);
  }
  bool by_rows() const override { return true; }
  at::Tensor inputs(const Observations& observation) const override {
    return flat_(observation).contiguous();
  }
  void add_layers(MlpKernel& kernel) const override { shoal::add_layers(kernel, layers_, true); }

 private:
  FlatInput flat_;
  std::int64_t width_;
  Layers layers_;
};

void require_units(const std::vector<std::int64_t>& hidden) {
  for (const auto units : hidden)
    require(units > 0, "model.hidden: found a layer of {} units, expected at least 1", units);
}

}  // namespace

std::shared_ptr<Trunk> make_mlp_trunk(const NamedSpecs& observation, const ModelOptions& options,
                                      at::Generator generator) {
  require_units(options.hidden);
  return std::make_shared<MlpTrunk>(observation, options.hidden, generator);
}

std::shared_ptr<ActorCriticModel> make_mlp(const NamedSpecs& observation, std::int64_t policy_size,
                                           const ModelOptions& options, at::Generator generator) {
  require_units(options.hidden);
  return std::make_shared<Mlp>(observation, policy_size, options, std::move(generator));
}

}  // namespace shoal
