#include "src/models/nature_cnn_acting.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <torch/utils.h>

#include <algorithm>
#include <array>
#include <optional>

#include "src/models/gather_gemm.h"
#include "src/models/incremental_convolutions.h"
#include "src/models/run_model.h"
#include "src/models/stacked_frames.h"

namespace shoal {

namespace {

constexpr std::array<std::int64_t, 3> kStrides{4, 2, 1};

class OneDnnActing final : public ActingNetwork {
 public:
  OneDnnActing(const NatureCnnLayers& layers, Precision precision)
      : layers_(layers), dtype_(precision == Precision::kBf16 ? at::kBFloat16 : at::kFloat) {
    refresh();
  }

  void refresh() override {
    torch::NoGradGuard no_grad;
    auto filter = [&](const torch::nn::Conv2d& conv, double scale) {
      return conv->weight.detach().mul(scale).to(dtype_).contiguous(at::MemoryFormat::ChannelsLast);
    };
    auto copy = [&](const at::Tensor& t) { return t.detach().clone().to(dtype_); };
    filters_ = {filter(layers_.conv1, 1 / layers_.pixel_range), filter(layers_.conv2, 1),
                filter(layers_.conv3, 1)};
    biases_ = {copy(layers_.conv1->bias), copy(layers_.conv2->bias), copy(layers_.conv3->bias)};
    hidden_weight_ = copy(layers_.hidden->weight);
    hidden_bias_ = copy(layers_.hidden->bias);
    // Both heads in one product, in float32: they are small, and precision matters most here.
    head_weight_ = at::cat({layers_.policy->weight, layers_.value->weight}).detach();
    head_bias_ = at::cat({layers_.policy->bias, layers_.value->bias}).detach();
  }

  std::string description() const override {
    return dtype_ == at::kFloat ? "oneDNN, channels-last, float32" : "oneDNN, channels-last, bf16";
  }

  void run(const Observations& observation, at::Tensor& policy, at::Tensor& value,
           std::int64_t) override {
    auto x = images(observation[0], dtype_);
    for (std::size_t i = 0; i < 3; ++i)
      x = at::conv2d(x, filters_[i], biases_[i], kStrides[i]).relu_();
    x = x.permute({0, 2, 3, 1}).flatten(1);
    x = at::addmm(hidden_bias_, x, hidden_weight_.t()).relu_().to(at::kFloat);
    const auto heads = at::addmm(head_bias_, x, head_weight_.t());
    const auto n = policy.size(1);
    require_outputs(heads.size(1) - 1, n);
    policy.copy_(heads.narrow(1, 0, n));
    value.copy_(heads.select(1, n));
  }

 private:
  NatureCnnLayers layers_;
  at::ScalarType dtype_;
  std::array<at::Tensor, 3> filters_, biases_;
  at::Tensor hidden_weight_, hidden_bias_, head_weight_, head_bias_;
};

// The convolutions keep the last image of every environment and compute only changes. The weights
// of the hidden layer do not fit into a cache, so each thread computes a share of its outputs for
// all observations.
class GatherGemmActing : public ActingNetwork {
 public:
  GatherGemmActing(const NatureCnnLayers& layers, Precision precision)
      : layers_(layers), bf16_(precision == Precision::kBf16) {
    refresh();
  }

  void refresh() override {
    torch::NoGradGuard no_grad;
    filters_.clear();
    for (const auto* layer : {&layers_.conv1, &layers_.conv2, &layers_.conv3}) {
      const auto i = filters_.size();
      filters_.push_back({((*layer)->weight * (i == 0 ? 1 / layers_.pixel_range : 1))
                              .permute({0, 2, 3, 1})
                              .contiguous(),
                          (*layer)->bias.clone(), kStrides[i]});
    }
    convolutions_.reset();  // remade for the size of the next image
    hidden_.emplace(layers_.hidden->weight, layers_.hidden->bias,
                    RowLayout{.length = layers_.hidden->weight.size(1)}, true, bf16_);
    // In float32: they are small, and precision matters most here.
    const auto heads = at::cat({layers_.policy->weight, layers_.value->weight});
    heads_.emplace(heads, at::cat({layers_.policy->bias, layers_.value->bias}),
                   RowLayout{.length = heads.size(1)}, false);
  }

  bool rows_are_independent() const override { return true; }
  std::string description() const override {
    const std::string kernel = "gathered GEMM of what has changed, ";
    if (!bf16_) return kernel + "float32";
    return kernel + (hidden_->multiplies_bf16() ? "bf16" : "weights rounded to bf16, float32");
  }

  void run(const Observations& observation, at::Tensor& policy, at::Tensor& value,
           std::int64_t first_env) override {
    const auto n = policy.size(0), choices = policy.size(1);
    require_outputs(layers_.policy->weight.size(0), choices);
    auto& seen = first_env < 0 ? strangers_ : known_;
    const auto first = std::max<std::int64_t>(first_env, 0);
    convolve(observation[0], seen, first);
    const float* features = seen.features.data() + first * convolutions_->features();

    const auto units = hidden_->row_of_y(), width = heads_->row_of_y();
    units_.resize(static_cast<std::size_t>(n * units));
    const auto to_hidden = places(n, layers_.hidden->weight.size(1), units);
    at::parallel_for(0, hidden_->blocks(), 4, [&](std::int64_t from, std::int64_t to) {
      hidden_->run(features, to_hidden, units_.data(), from, to);
    });
    outputs_.resize(static_cast<std::size_t>(n * width));
    heads_->run(units_.data(), places(n, units, width), outputs_.data());
    for (std::int64_t i = 0; i < n; ++i) {
      const float* row = outputs_.data() + i * width;
      std::copy_n(row, choices, policy.data_ptr<float>() + i * choices);
      value.data_ptr<float>()[i] = row[choices];
    }
  }

 private:
  // The memories of environments, by their number.
  struct Seen {
    std::vector<IncrementalConvolutions::Memory> memories;
    std::vector<float> features;
  };

  // The places of n consecutive rows.
  static std::vector<GatherGemm::Place> places(std::int64_t n, std::int64_t x, std::int64_t y) {
    std::vector<GatherGemm::Place> rows;
    for (std::int64_t i = 0; i < n; ++i) rows.push_back({i * x, i * y});
    return rows;
  }

  // Allocates the memories for n observations of environments from `first` on.
  void prepare(Seen& seen, std::int64_t first, std::int64_t n, std::int64_t height,
               std::int64_t width) {
    if (!convolutions_ || height != height_ || width != width_) {
      convolutions_.emplace(filters_, height, width, bf16_);
      known_ = strangers_ = {};
      height_ = height, width_ = width;
    }
    if (&seen == &strangers_) seen.memories.clear();
    if (static_cast<std::int64_t>(seen.memories.size()) >= first + n) return;
    seen.memories.resize(static_cast<std::size_t>(first + n));
    seen.features.resize(static_cast<std::size_t>((first + n) * convolutions_->features()));
  }

  void convolve(const Observed& observation, Seen& seen, std::int64_t first) {
    if (FourFrames::fits(observation)) {
      const FourFrames frames(observation);
      prepare(seen, first, frames.size(), frames.height(), frames.width());
      const auto bytes = static_cast<std::size_t>(convolutions_->image_bytes());
      each(seen, first, frames.size(), [&](std::int64_t n) {
        thread_local std::vector<std::uint8_t> image;
        image.resize(bytes);
        frames.write(n, image.data());
        return image.data();
      });
    } else {
      const auto all = images(observation, at::kByte).permute({0, 2, 3, 1}).contiguous();
      prepare(seen, first, all.size(0), all.size(1), all.size(2));
      each(seen, first, all.size(0), [&](std::int64_t n) {
        return all.const_data_ptr<std::uint8_t>() + n * convolutions_->image_bytes();
      });
    }
  }

  // image(n): observation n as [height][width][channels].
  template <class Image>
  void each(Seen& seen, std::int64_t first, std::int64_t count, const Image& image) {
    at::parallel_for(0, count, 1, [&](std::int64_t from, std::int64_t to) {
      for (auto n = from; n < to; ++n)
        convolutions_->run(image(n), seen.memories[static_cast<std::size_t>(first + n)],
                           seen.features.data() + (first + n) * convolutions_->features());
    });
  }

  NatureCnnLayers layers_;
  bool bf16_;
  std::vector<IncrementalConvolutions::Layer> filters_;
  std::int64_t height_ = 0, width_ = 0;  // image size of convolutions_
  std::optional<IncrementalConvolutions> convolutions_;
  Seen known_, strangers_;  // strangers_: rows without an environment, cleared at every call
  std::optional<GatherGemm> hidden_, heads_;
  std::vector<float> units_, outputs_;
};

}  // namespace

std::unique_ptr<ActingNetwork> make_nature_cnn_acting(const NatureCnnLayers& layers,
                                                      Precision precision) {
  if (GatherGemm::is_fast()) return std::make_unique<GatherGemmActing>(layers, precision);
  return make_onednn_acting(layers, precision);
}

std::unique_ptr<ActingNetwork> make_onednn_acting(const NatureCnnLayers& layers,
                                                  Precision precision) {
  return std::make_unique<OneDnnActing>(layers, precision);
}

}  // namespace shoal
