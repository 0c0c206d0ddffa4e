#pragma once

#include <torch/torch.h>

#include <memory>
#include <string>

#include "shoal/core/rng.h"
#include "shoal/envs/env.h"
#include "shoal/models/actor_critic.h"

namespace shoal::testing {

// A picture of `size` columns, one of which is bright, in stacks of two. Each step the column is
// another one, and the reward is minus the squared distance, in half-widths of the bounds, of each
// number of the action from the column that was shown. Episodes have four steps.
class BrightColumn : public Env {
 public:
  BrightColumn(std::int64_t size, std::int64_t dims)
      : size_(size),
        spec_{.id = "BrightColumn",
              .observation = ArraySpec{.dtype = DType::kUInt8,
                                       .shape = {size, size},
                                       .low = 0,
                                       .high = 255,
                                       .stack = 2},
              .action = ActionSpec::box(dims, -2, 1)} {}

  const EnvSpec& spec() const override { return spec_; }
  void reset(std::optional<std::uint64_t> seed, StepOut out) override {
    if (seed) rng_ = Rng(*seed);
    step_ = 0;
    show(out);
  }
  StepResult step(ArraysIn action, StepOut out) override {
    const double place = 2 * static_cast<double>(column_) / static_cast<double>(size_ - 1) - 1;
    double reward = 0;
    for (std::int64_t i = 0; i < spec_.action[0].dims; ++i) {
      const double off = (action.as<float>()[i] + 0.5) / 1.5 - place;
      reward -= off * off;
    }
    show(out);
    return {.reward = static_cast<float>(reward), .terminated = ++step_ == 4};
  }

 private:
  void show(StepOut out) {
    column_ = rng_.integer(0, size_);
    auto* pixel = out.observation.as<std::uint8_t>();
    for (std::int64_t i = 0; i < size_ * size_; ++i) pixel[i] = i % size_ == column_ ? 255 : 20;
  }

  std::int64_t size_;
  EnvSpec spec_;
  Rng rng_;
  std::int64_t column_ = 0, step_ = 0;
};

inline EnvFactory make_bright_column(std::int64_t size, std::int64_t dims = 1) {
  return [=](const EnvContext&) { return std::make_unique<BrightColumn>(size, dims); };
}

// A convolution and a hidden layer, without a form of its own for acting.
class SmallCnn : public ActorCriticModel {
 public:
  SmallCnn(const ArraySpec& picture, std::int64_t outputs)
      : conv_(register_module(
            "conv", torch::nn::Conv2d(torch::nn::Conv2dOptions(picture.stack, 8, 3).stride(2)))) {
    const auto side = (picture.shape[0] - 3) / 2 + 1;
    policy_ = register_module("policy", torch::nn::Linear(8 * side * side, outputs));
    value_ = register_module("value", torch::nn::Linear(8 * side * side, 1));
  }
  ModelOut forward(const ModelIn& in) override {
    const auto x = conv_(in.observation[0].dense().to(at::kFloat) / 255).relu().flatten(1);
    return {policy_(x), value_(x).squeeze(1), {}};
  }

 private:
  torch::nn::Conv2d conv_;
  torch::nn::Linear policy_{nullptr}, value_{nullptr};
};

// Its name for make_model().
inline const std::string& small_cnn() {
  static const std::string name = [] {
    register_model("small-cnn", [](const NamedSpecs& o, std::int64_t outputs, const ModelOptions&) {
      return std::make_shared<SmallCnn>(o[0], outputs);
    });
    return std::string("small-cnn");
  }();
  return name;
}

}  // namespace shoal::testing
