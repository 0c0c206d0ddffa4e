#include "src/models/nature_cnn_acting.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <array>
#include <optional>
#include <type_traits>

#include "src/models/gather_gemm.h"
#include "src/models/stacked_frames.h"

namespace shoal {

namespace {

constexpr std::array<std::int64_t, 3> kStrides{4, 2, 1};
constexpr double kPixelScale = 1.0 / 255;  // of the first layer's weights: pixels stay 0..255

class OneDnnActing : public ActingNetwork {
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
    filters_ = {filter(layers_.conv1, kPixelScale), filter(layers_.conv2, 1),
                filter(layers_.conv3, 1)};
    biases_ = {copy(layers_.conv1->bias), copy(layers_.conv2->bias), copy(layers_.conv3->bias)};
    hidden_weight_ = copy(layers_.hidden->weight);
    hidden_bias_ = copy(layers_.hidden->bias);
    // Both heads at once, in float32: they are tiny, and decide.
    head_weight_ = at::cat({layers_.policy->weight, layers_.value->weight}).detach();
    head_bias_ = at::cat({layers_.policy->bias, layers_.value->bias}).detach();
  }

  void run(const Observations& observation, at::Tensor& policy, at::Tensor& value) override {
    auto x = images(observation[0], dtype_);
    for (std::size_t i = 0; i < 3; ++i)
      x = at::conv2d(x, filters_[i], biases_[i], kStrides[i]).relu_();
    x = x.permute({0, 2, 3, 1}).flatten(1);
    x = at::addmm(hidden_bias_, x, hidden_weight_.t()).relu_().to(at::kFloat);
    const auto heads = at::addmm(head_bias_, x, head_weight_.t());
    const auto n = policy.size(1);
    policy.copy_(heads.narrow(1, 0, n));
    value.copy_(heads.select(1, n));
  }

  std::string description() const override {
    return dtype_ == at::kFloat ? "oneDNN, channels-last, float32" : "oneDNN, channels-last, bf16";
  }

 private:
  NatureCnnLayers layers_;
  at::ScalarType dtype_;
  std::array<at::Tensor, 3> filters_, biases_;
  at::Tensor hidden_weight_, hidden_bias_, head_weight_, head_bias_;
};

// One observation goes through all convolutions before the next, so that everything between them
// stays in the second cache of a core. The hidden layer has far more weights than a cache holds:
// there, each thread takes a share of the outputs, for all observations.
template <class Number>
class GatherGemmActing : public ActingNetwork {
 public:
  explicit GatherGemmActing(const NatureCnnLayers& layers) : layers_(layers) { refresh(); }

  void refresh() override {
    torch::NoGradGuard no_grad;
    filters_.clear();
    for (const auto* layer : {&layers_.conv1, &layers_.conv2, &layers_.conv3}) {
      const auto scale = filters_.empty() ? kPixelScale : 1;
      filters_.push_back({((*layer)->weight * scale).permute({0, 2, 3, 1}).contiguous(),
                          (*layer)->bias.detach().clone()});
    }
    height_ = 0;  // the sizes of the layers follow from the first image
    const auto& hidden = layers_.hidden;
    hidden_.emplace(make_gemm<Number>(hidden->weight, hidden->bias, {.length = hidden_width()},
                                      true, kMaxInput));
    const auto head_weight = at::cat({layers_.policy->weight, layers_.value->weight});
    const auto head_bias = at::cat({layers_.policy->bias, layers_.value->bias});
    heads_.emplace(
        make_gemm<float>(head_weight, head_bias, {.length = head_weight.size(1)}, false, 0));
  }

  void run(const Observations& observation, at::Tensor& policy, at::Tensor& value) override {
    const auto n = policy.size(0), choices = policy.size(1);
    features_.resize(static_cast<std::size_t>(n * hidden_width()));
    scales_.resize(static_cast<std::size_t>(n));
    convolve(observation[0]);

    const auto units = hidden_->row_of_y();
    units_.resize(static_cast<std::size_t>(n * units));
    const auto feature_rows = rows(n, hidden_width());
    at::parallel_for(0, hidden_->blocks(), 4, [&](std::int64_t from, std::int64_t to) {
      hidden_->run({features_.data(), scales_.data(), 1}, feature_rows, units_.data(), from, to);
    });

    const auto width = heads_->row_of_y();
    outputs_.resize(static_cast<std::size_t>(n * width));
    heads_->run({units_.data()}, rows(n, units), outputs_.data());
    for (std::int64_t i = 0; i < n; ++i) {
      const float* row = outputs_.data() + i * width;
      std::copy_n(row, choices, policy.data_ptr<float>() + i * choices);
      value.data_ptr<float>()[i] = row[choices];
    }
  }

  std::string description() const override {
    return kFloat ? "gathered GEMM, float32" : "gathered GEMM, 16-bit integers in place of bf16";
  }

 private:
  static constexpr bool kFloat = std::is_same_v<Number, float>;
  static constexpr Number kMaxPixel = 255;
  // Of the other layers: leaves 19 bits to the sum of a row's weights.
  static constexpr Number kMaxInput = 4095;

  struct Convolution {
    GatherGemm<Number> gemm;
    std::vector<std::int64_t> patches;  // where each output pixel's patch starts in the image
    std::int64_t outputs() const {
      return static_cast<std::int64_t>(patches.size()) * gemm.row_of_y();
    }
  };

  struct Filter {
    at::Tensor weight, bias;  // [out, height, width, channels], [out]; copies
  };

  // What one thread needs between the layers of an observation.
  struct Scratch {
    std::vector<Number> image, x;
    std::vector<float> y[2];
    float scale = 1;
  };
  using Input = typename GatherGemm<Number>::Input;

  // Outputs of a layer as the inputs of the next: as they are, or rounded.
  static Input next(const std::vector<float>& y, std::int64_t n, Scratch& scratch) {
    if constexpr (kFloat) {
      return {y.data()};
    } else {
      scratch.scale = to_integers(y.data(), n, kMaxInput, scratch.x.data());
      return {scratch.x.data(), &scratch.scale};
    }
  }

  template <class N>
  static GatherGemm<N> make_gemm(const at::Tensor& weight, const at::Tensor& bias, RowLayout row,
                                 bool relu, N max_input) {
    const auto w = weight.contiguous(), b = bias.contiguous();
    return {w.const_data_ptr<float>(), b.const_data_ptr<float>(), w.size(0), row, relu, max_input};
  }

  void prepare(std::int64_t height, std::int64_t width) {
    if (height == height_ && width == width_) return;
    height_ = height, width_ = width;
    convolutions_.clear();
    for (const auto& [weight, bias] : filters_) {
      const bool pixels = convolutions_.empty();
      const auto stride = kStrides[convolutions_.size()];
      const auto size = weight.size(1), channels = weight.size(3);
      const auto out_height = (height - size) / stride + 1, out_width = (width - size) / stride + 1;
      std::vector<std::int64_t> patches;
      for (std::int64_t y = 0; y < out_height; ++y)
        for (std::int64_t x = 0; x < out_width; ++x)
          patches.push_back((y * width + x) * stride * channels);
      const RowLayout row{.segments = size, .length = size * channels, .stride = width * channels};
      convolutions_.push_back(
          {make_gemm<Number>(weight, bias, row, true, pixels ? kMaxPixel : kMaxInput), patches});
      height = out_height, width = out_width;
    }
  }

  void convolve(const Observed& observation) {
    if (FourFrames::fits(observation)) {
      const FourFrames frames(observation);
      prepare(frames.height(), frames.width());
      const auto size = static_cast<std::size_t>(frames.height() * frames.width() * 4);
      each(frames.size(), [&](std::int64_t n, Scratch& scratch) {
        scratch.image.resize(size);
        frames.write(n, scratch.image.data());
        return scratch.image.data();
      });
    } else {
      const auto all = images(observation, c10::CppTypeToScalarType<Number>::value);
      prepare(all.size(2), all.size(3));
      each(all.size(0), [&](std::int64_t n, Scratch&) {
        return all.template const_data_ptr<Number>() + n * all.size(1) * all.size(2) * all.size(3);
      });
    }
  }

  // image(n, scratch): observation n as [height][width][channels].
  template <class Image>
  void each(std::int64_t count, const Image& image) {
    at::parallel_for(0, count, 1, [&](std::int64_t from, std::int64_t to) {
      thread_local Scratch scratch;
      auto& [image_room, x, y, scale] = scratch;
      const auto &conv1 = convolutions_[0], &conv2 = convolutions_[1], &conv3 = convolutions_[2];
      const auto outputs = conv3.outputs();
      const auto most = static_cast<std::size_t>(std::max(conv1.outputs(), conv2.outputs()));
      x.resize(most), y[0].resize(most), y[1].resize(most);
      for (auto n = from; n < to; ++n) {
        scale = 1;
        conv1.gemm.run({image(n, scratch), &scale}, conv1.patches, y[0].data());
        conv2.gemm.run(next(y[0], conv1.outputs(), scratch), conv2.patches, y[1].data());
        const auto in = next(y[1], conv2.outputs(), scratch);
        Number* features = features_.data() + n * outputs;
        if constexpr (kFloat) {
          conv3.gemm.run(in, conv3.patches, features);
        } else {
          conv3.gemm.run(in, conv3.patches, y[0].data());
          scales_[static_cast<std::size_t>(n)] =
              to_integers(y[0].data(), outputs, kMaxInput, features);
        }
      }
    });
  }

  std::int64_t hidden_width() const { return layers_.hidden->weight.size(1); }

  static std::vector<std::int64_t> rows(std::int64_t n, std::int64_t length) {
    std::vector<std::int64_t> offsets(static_cast<std::size_t>(n));
    for (std::int64_t i = 0; i < n; ++i) offsets[static_cast<std::size_t>(i)] = i * length;
    return offsets;
  }

  NatureCnnLayers layers_;
  std::int64_t height_ = 0, width_ = 0;  // of the image the convolutions are prepared for
  std::vector<Filter> filters_;
  std::vector<Convolution> convolutions_;
  std::optional<GatherGemm<Number>> hidden_;
  std::optional<GatherGemm<float>> heads_;  // in float32: they are tiny, and decide
  std::vector<Number> features_;            // [n, hidden_width()]
  std::vector<float> scales_;               // of the rows of features_, if they are integers
  std::vector<float> units_, outputs_;
};

}  // namespace

std::unique_ptr<ActingNetwork> make_nature_cnn_acting(const NatureCnnLayers& layers,
                                                      Precision precision) {
  if (!gather_gemm_is_fast()) return make_onednn_acting(layers, precision);
  if (precision == Precision::kFloat32) return std::make_unique<GatherGemmActing<float>>(layers);
  return std::make_unique<GatherGemmActing<std::int16_t>>(layers);
}

std::unique_ptr<ActingNetwork> make_onednn_acting(const NatureCnnLayers& layers,
                                                  Precision precision) {
  return std::make_unique<OneDnnActing>(layers, precision);
}

}  // namespace shoal
