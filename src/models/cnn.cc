#include "src/models/cnn.h"

#include <ATen/ATen.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>

#include <algorithm>
#include <array>
#include <string>

#include "shoal/core/error.h"
#include "src/models/convolution.h"
#include "src/models/layers.h"
#include "src/models/stacked_frames.h"

namespace shoal {

namespace {

using torch::nn::Conv2d;
using torch::nn::Conv2dOptions;
using torch::nn::Linear;

constexpr std::int64_t kSmallestSide = 7;

const std::vector<ConvLayer> kNatureLayers{{32, 8, 4}, {64, 4, 2}, {64, 3, 1}};
// For grid worlds and other small pictures: 8 x 8 pixels leave 2 x 2.
const std::vector<ConvLayer> kSmallLayers{{32, 3, 1}, {64, 3, 2}};

struct PictureShape {
  std::int64_t channels, height, width;
};

PictureShape shape_of(const ArraySpec& picture) {
  const auto dims = picture.shape.size();
  return {(dims == 3 ? picture.shape[0] : 1) * picture.stack, picture.shape[dims - 2],
          picture.shape[dims - 1]};
}

bool fits(const std::vector<ConvLayer>& layers, const ArraySpec& picture) {
  auto [channels, height, width] = shape_of(picture);
  for (const auto& layer : layers)
    height = side_after(layer, height), width = side_after(layer, width);
  return height > 0 && width > 0;
}

std::vector<ConvLayer> listed_layers(const std::vector<std::int64_t>& numbers) {
  require(!numbers.empty() && numbers.size() % 3 == 0,
          "model.cnn_layers: found {} numbers, expected three for each layer, its filters, size "
          "and stride, e.g. [32, 3, 1, 64, 3, 2]",
          numbers.size());
  std::vector<ConvLayer> layers;
  for (std::size_t i = 0; i < numbers.size(); i += 3) {
    const ConvLayer layer{numbers[i], numbers[i + 1], numbers[i + 2]};
    require(layer.filters > 0 && layer.size > 0 && layer.stride > 0,
            "model.cnn_layers: found a layer of {} filters, size {} and stride {}, expected at "
            "least 1 of each",
            layer.filters, layer.size, layer.stride);
    layers.push_back(layer);
  }
  return layers;
}

// The last layer and the arithmetic that both kinds of network share.
class CnnBase : public Cnn {
 public:
  CnnBase(const ArraySpec& picture, Precision precision)
      : shape_(shape_of(picture)), scale_(1 / pixel_range(picture)), precision_(precision) {}

  at::Tensor forward(const Observed& picture) override {
    const auto dtype = compute_dtype(precision_, features_->weight.device());
    auto x = convolve(picture, dtype);
    // The features in memory order, [h, w, channels], so that flattening copies nothing.
    x = x.permute({0, 2, 3, 1}).flatten(1);
    return at::linear(x, features_->weight.to(dtype), features_->bias.to(dtype))
        .relu_()
        .to(at::kFloat);
  }

 protected:
  virtual at::Tensor convolve(const Observed& picture, at::ScalarType dtype) = 0;

  void add_features(std::int64_t inputs, std::int64_t features, const at::Generator& generator) {
    features_ =
        register_module("features", initialised(Linear(inputs, features), kReluGain, generator));
  }
  // Pixels stay as they are: scaling the first layer's weights instead is cheaper.
  at::Tensor first_weight(const Conv2d& conv) const { return conv->weight * scale_; }
  const PictureShape& shape() const { return shape_; }

 private:
  PictureShape shape_;
  double scale_;
  Precision precision_;
  Linear features_{nullptr};
};

class PlainCnn : public CnnBase {
 public:
  PlainCnn(const ArraySpec& picture, const std::vector<ConvLayer>& layers, std::int64_t features,
           Precision precision, const at::Generator& generator)
      : CnnBase(picture, precision), layers_(layers) {
    auto [channels, height, width] = shape();
    for (const auto& layer : layers) {
      const auto options = Conv2dOptions(channels, layer.filters, layer.size).stride(layer.stride);
      convs_.push_back(register_module("conv" + std::to_string(convs_.size()),
                                       initialised(Conv2d(options), kReluGain, generator)));
      channels = layer.filters;
      height = side_after(layer, height), width = side_after(layer, width);
    }
    add_features(channels * height * width, features, generator);
  }

 private:
  at::Tensor convolve(const Observed& picture, at::ScalarType dtype) override {
    auto x = first_layer_input(picture, dtype);
    for (std::size_t i = 0; i < convs_.size(); ++i) {
      const auto weight = i == 0 ? first_weight(convs_[0]) : convs_[i]->weight;
      x = relu_convolution(x, weight, convs_[i]->bias, layers_[i].stride, dtype);
    }
    return x;
  }

  std::vector<ConvLayer> layers_;
  std::vector<Conv2d> convs_;
};

// Three blocks of a convolution, a maximum over 3 x 3 pixels with stride 2, and two residual parts.
class ImpalaCnn : public CnnBase {
 public:
  ImpalaCnn(const ArraySpec& picture, std::int64_t features, Precision precision,
            const at::Generator& generator)
      : CnnBase(picture, precision) {
    auto [channels, height, width] = shape();
    for (const auto filters : kImpalaFilters) {
      const auto name = "block" + std::to_string(blocks_.size());
      const auto add = [&](const char* part, std::int64_t in, double gain) {
        const auto options = Conv2dOptions(in, filters, 3).padding(1);
        return register_module(name + part, initialised(Conv2d(options), gain, generator));
      };
      blocks_.push_back({add("_conv", channels, kReluGain),
                         {add("_residual0", filters, 1), add("_residual1", filters, 1),
                          add("_residual2", filters, 1), add("_residual3", filters, 1)}});
      channels = filters;
      height = (height + 1) / 2, width = (width + 1) / 2;
    }
    add_features(channels * height * width, features, generator);
  }

 private:
  struct Block {
    Conv2d conv;
    std::array<Conv2d, 4> residual;
  };

  static at::Tensor convolved(const Conv2d& conv, const at::Tensor& weight, const at::Tensor& x) {
    return at::conv2d(x, weight, conv->bias.to(x.scalar_type()), 1, 1);
  }
  static at::Tensor convolved(const Conv2d& conv, const at::Tensor& x) {
    return convolved(conv, conv->weight.to(x.scalar_type()), x);
  }

  at::Tensor convolve(const Observed& picture, at::ScalarType dtype) override {
    auto x = images(picture, dtype);
    for (std::size_t i = 0; i < blocks_.size(); ++i) {
      const auto& [conv, residual] = blocks_[i];
      const auto weight = (i == 0 ? first_weight(conv) : conv->weight).to(dtype);
      x = at::max_pool2d(convolved(conv, weight, x), 3, 2, 1);
      for (std::size_t part = 0; part < residual.size(); part += 2)
        x = x + convolved(residual[part + 1], convolved(residual[part], x.relu()).relu_());
    }
    return x.relu_();
  }

  std::vector<Block> blocks_;
};

}  // namespace

bool is_picture(const ArraySpec& field) {
  const auto dims = field.shape.size();
  if (dims != 3 && !(dims == 2 && field.dtype == DType::kUInt8)) return false;
  return field.shape[dims - 2] >= kSmallestSide && field.shape[dims - 1] >= kSmallestSide;
}

bool fits_nature_cnn(const ArraySpec& picture) { return fits(kNatureLayers, picture); }

std::vector<ConvLayer> conv_layers(const ArraySpec& picture, const ModelOptions& options) {
  const auto [channels, height, width] = shape_of(picture);
  switch (options.cnn) {
    case CnnKind::kAuto:
      return fits_nature_cnn(picture) ? kNatureLayers : kSmallLayers;
    case CnnKind::kNature:
      require(fits_nature_cnn(picture),
              "model.cnn (or model.name): found nature and a picture of {} x {} pixels, expected "
              "at least 36 x 36; set model.cnn and model.name to auto, or give larger pictures "
              "(atari.screen, env.resize)",
              height, width);
      return kNatureLayers;
    case CnnKind::kImpala:
      return {};
    case CnnKind::kLayers: {
      auto layers = listed_layers(options.cnn_layers);
      require(fits(layers, picture),
              "model.cnn_layers: nothing is left of a picture of {} x {} pixels after these "
              "layers; choose fewer, smaller sizes or smaller strides",
              height, width);
      return layers;
    }
  }
  return {};
}

std::int64_t cnn_features(const ArraySpec& picture, const ModelOptions& options) {
  const bool nature = options.cnn == CnnKind::kNature ||
                      (options.cnn == CnnKind::kAuto && fits_nature_cnn(picture));
  return nature ? 512 : 256;
}

std::shared_ptr<Cnn> make_cnn(const ArraySpec& picture, const ModelOptions& options,
                              const at::Generator& generator) {
  const auto layers = conv_layers(picture, options);
  const auto features = cnn_features(picture, options);
  if (options.cnn == CnnKind::kImpala)
    return std::make_shared<ImpalaCnn>(picture, features, options.precision, generator);
  return std::make_shared<PlainCnn>(picture, layers, features, options.precision, generator);
}

}  // namespace shoal
