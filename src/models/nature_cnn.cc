#include <ATen/ATen.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>

#include "shoal/core/error.h"
#include "src/models/convolution.h"
#include "src/models/layers.h"
#include "src/models/models.h"
#include "src/models/nature_cnn_acting.h"
#include "src/models/trunk.h"

namespace shoal {

namespace {

using torch::nn::Conv2d;
using torch::nn::Conv2dOptions;
using torch::nn::Linear;

struct Shape {
  std::int64_t channels, height, width;
};

// An observation that is one image [H, W] or [C, H, W], possibly stacked.
Shape image_shape(const NamedSpecs& observation) {
  require(observation.size() == 1, "nature-cnn: found {} observation fields, expected one image",
          observation.size());
  const auto& spec = observation[0];
  require(
      spec.dtype == DType::kUInt8 && (spec.shape.size() == 2 || spec.shape.size() == 3),
      "nature-cnn: found an observation of {} with {} dimensions, expected a uint8 image [H, W] "
      "or [C, H, W]; set model.name to auto",
      name_of(spec.dtype), spec.shape.size());
  const auto dims = spec.shape.size();
  const auto channels = dims == 3 ? spec.shape[0] : 1;
  return {channels * spec.stack, spec.shape[dims - 2], spec.shape[dims - 1]};
}

std::int64_t after_convolutions(std::int64_t size) {
  return (((size - 8) / 4 + 1 - 4) / 2 + 1) - 3 + 1;
}

// The layers without the heads: 512 features of an image.
class NatureCnnTrunk : public Trunk {
 public:
  NatureCnnTrunk(const NamedSpecs& observation, Precision precision, const at::Generator& generator)
      : precision_(precision) {
    const auto shape = image_shape(observation);
    pixel_range_ = shoal::pixel_range(observation[0]);
    const auto h = after_convolutions(shape.height), w = after_convolutions(shape.width);
    require(h > 0 && w > 0, "nature-cnn: found images of {} x {} pixels, expected at least 36 x 36",
            shape.height, shape.width);
    auto add = [&](const char* name, auto layer) {
      return register_module(name, initialised(std::move(layer), kReluGain, generator));
    };
    conv1 = add("conv1", Conv2d(Conv2dOptions(shape.channels, 32, 8).stride(4)));
    conv2 = add("conv2", Conv2d(Conv2dOptions(32, 64, 4).stride(2)));
    conv3 = add("conv3", Conv2d(Conv2dOptions(64, 64, 3)));
    // Reads the features in memory order, [h, w, channels], so that flattening copies nothing.
    hidden = add("hidden", Linear(h * w * 64, kFeatures));
  }

  std::int64_t width() const override { return kFeatures; }
  double pixel_range() const { return pixel_range_; }
  at::Tensor forward(const Observations& observation) override {
    const auto dtype = compute_dtype(precision_, hidden->weight.device());
    const auto cast = [dtype](const at::Tensor& t) { return t.to(dtype); };
    // Pixels stay bytes: scaling the first layer's weights instead is cheaper.
    auto x = first_layer_input(observation[0], dtype);
    x = relu_convolution(x, conv1->weight / pixel_range_, conv1->bias, 4, dtype);
    x = relu_convolution(x, conv2->weight, conv2->bias, 2, dtype);
    x = relu_convolution(x, conv3->weight, conv3->bias, 1, dtype);
    x = x.permute({0, 2, 3, 1}).flatten(1);
    x = at::linear(x, cast(hidden->weight), cast(hidden->bias)).relu_();
    return x.to(at::kFloat);
  }

  static constexpr std::int64_t kFeatures = 512;
  Conv2d conv1{nullptr}, conv2{nullptr}, conv3{nullptr};
  Linear hidden{nullptr};

 private:
  double pixel_range_ = 1;
  Precision precision_;
};

// The network of Mnih et al., "Human-level control through deep reinforcement learning" (Nature
// 2015), with a policy and a value head on its 512 features.
class NatureCnn : public ActorCriticModel {
 public:
  NatureCnn(const NamedSpecs& observation, std::int64_t policy_size, Precision precision,
            const at::Generator& generator)
      : trunk_(observation, precision, generator) {
    for (const auto& layer : trunk_.named_children()) register_module(layer.key(), layer.value());
    auto add = [&](const char* name, std::int64_t out, double gain) {
      return register_module(name,
                             initialised(Linear(NatureCnnTrunk::kFeatures, out), gain, generator));
    };
    policy_ = add("policy_head", policy_size, 0.01);
    value_ = add("value_head", 1, 1.0);
  }

  ModelOut forward(const ModelIn& in) override {
    const auto x = trunk_.forward(in.observation);
    return {policy_->forward(x), value_->forward(x).squeeze(1), {}};
  }

  std::unique_ptr<ActingNetwork> make_acting_network(Precision precision) const override {
    const auto& t = trunk_;
    return make_nature_cnn_acting(
        {t.conv1, t.conv2, t.conv3, t.hidden, policy_, value_, t.pixel_range()}, precision);
  }

 private:
  NatureCnnTrunk trunk_;  // its layers are registered with this model
  Linear policy_{nullptr}, value_{nullptr};
};

}  // namespace

std::shared_ptr<ActorCriticModel> make_nature_cnn(const NamedSpecs& observation,
                                                  std::int64_t policy_size,
                                                  const ModelOptions& options,
                                                  at::Generator generator) {
  return std::make_shared<NatureCnn>(observation, policy_size, options.precision, generator);
}

std::shared_ptr<Trunk> make_nature_cnn_trunk(const NamedSpecs& observation,
                                             const ModelOptions& options, at::Generator generator) {
  return std::make_shared<NatureCnnTrunk>(observation, options.precision, generator);
}

}  // namespace shoal
