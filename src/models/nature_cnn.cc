#include <torch/torch.h>

#include "shoal/core/error.h"
#include "src/models/layers.h"
#include "src/models/models.h"
#include "src/models/nature_cnn_acting.h"
#include "src/models/stacked_frames.h"

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
  require(observation.size() == 1, "nature-cnn reads one image; this observation has {} fields",
          observation.size());
  const auto& spec = observation[0];
  require(spec.dtype == DType::kUInt8 && (spec.shape.size() == 2 || spec.shape.size() == 3),
          "nature-cnn reads uint8 images [H, W] or [C, H, W]; this observation is {} with {} "
          "dimensions. Use model "
          "'mlp' for vectors",
          name_of(spec.dtype), spec.shape.size());
  const auto dims = spec.shape.size();
  const auto channels = dims == 3 ? spec.shape[0] : 1;
  return {channels * spec.stack, spec.shape[dims - 2], spec.shape[dims - 1]};
}

std::int64_t after_convolutions(std::int64_t size) {
  return (((size - 8) / 4 + 1 - 4) / 2 + 1) - 3 + 1;
}

// The network of Mnih et al., "Human-level control through deep reinforcement learning" (Nature
// 2015), with a policy and a value head on its 512 features.
class NatureCnn : public ActorCriticModel {
 public:
  NatureCnn(const NamedSpecs& observation, std::int64_t policy_size,
            const at::Generator& generator) {
    const auto shape = image_shape(observation);
    const auto h = after_convolutions(shape.height), w = after_convolutions(shape.width);
    require(h > 0 && w > 0, "nature-cnn needs images of at least 36 x 36 pixels; found {} x {}",
            shape.height, shape.width);
    auto add = [&](const char* name, auto layer, double gain) {
      return register_module(name, initialised(std::move(layer), gain, generator));
    };
    conv1_ = add("conv1", Conv2d(Conv2dOptions(shape.channels, 32, 8).stride(4)), kReluGain);
    conv2_ = add("conv2", Conv2d(Conv2dOptions(32, 64, 4).stride(2)), kReluGain);
    conv3_ = add("conv3", Conv2d(Conv2dOptions(64, 64, 3)), kReluGain);
    // Reads the features in the order they lie in memory, [h, w, channels]: flattening moves
    // nothing.
    hidden_ = add("hidden", Linear(h * w * 64, 512), kReluGain);
    policy_ = add("policy_head", Linear(512, policy_size), 0.01);
    value_ = add("value_head", Linear(512, 1), 1.0);
  }

  ModelOut forward(const ModelIn& in) override {
    // Pixels stay 0..255; the scale belongs to the first layer's weights, which are far fewer.
    auto x = images(in.observation[0], at::kFloat);
    x = at::conv2d(x, conv1_->weight / 255, conv1_->bias, 4).relu_();
    x = at::conv2d(x, conv2_->weight, conv2_->bias, 2).relu_();
    x = at::conv2d(x, conv3_->weight, conv3_->bias, 1).relu_();
    x = x.permute({0, 2, 3, 1}).flatten(1);
    x = hidden_->forward(x).relu_();
    return {policy_->forward(x), value_->forward(x).squeeze(1), {}};
  }

  std::unique_ptr<ActingNetwork> make_acting_network(Precision precision) const override {
    return make_nature_cnn_acting({conv1_, conv2_, conv3_, hidden_, policy_, value_}, precision);
  }

 private:
  Conv2d conv1_{nullptr}, conv2_{nullptr}, conv3_{nullptr};
  Linear hidden_{nullptr}, policy_{nullptr}, value_{nullptr};
};

}  // namespace

std::shared_ptr<ActorCriticModel> make_nature_cnn(const NamedSpecs& observation,
                                                  std::int64_t policy_size,
                                                  at::Generator generator) {
  return std::make_shared<NatureCnn>(observation, policy_size, generator);
}

}  // namespace shoal
