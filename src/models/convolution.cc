#include "src/models/convolution.h"

#include <ATen/ATen.h>
#include <ATen/TracerMode.h>

#include "src/models/amx_convolution.h"
#include "src/models/panel_bf16.h"
#include "src/models/stacked_frames.h"
#include "src/models/winograd.h"

namespace shoal {

namespace {

// Below, transforming the weights takes longer than it saves.
constexpr std::int64_t kLeastImages = 8;

// An export traces operations that other programs know.
bool is_traced() { return at::tracer::impl::is_dispatch_enabled(); }

}  // namespace

double pixel_range(const ArraySpec& picture) {
  if (picture.dtype != DType::kUInt8) return 1;
  return picture.high >= 1 && picture.high < 255 ? picture.high : 255;
}

bool has_fast_bf16() { return panel_bf16() != nullptr; }

at::ScalarType compute_dtype(Precision precision, const at::Device& device) {
  const bool is_slow = device.is_cpu() && !has_fast_bf16();
  return precision == Precision::kBf16 && !is_slow ? at::kBFloat16 : at::kFloat;
}

at::Tensor first_layer_input(const Observed& observation, at::ScalarType dtype) {
  const auto& data = observation.data;
  const bool reads_bytes =
      data.is_cpu() && data.scalar_type() == at::kByte && (dtype == at::kFloat || panel_amx());
  return images(observation, reads_bytes && !is_traced() ? at::kByte : dtype);
}

at::Tensor relu_convolution(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                            std::int64_t stride, at::ScalarType dtype) {
  if (dtype == at::kFloat && !is_traced() && x.size(0) >= kLeastImages &&
      fits_winograd(x, weight, stride))
    return winograd_convolution(x, weight, bias, stride);
  if (dtype == at::kBFloat16 && !is_traced() && fits_amx_convolution(x, weight, stride))
    return amx_convolution(x.scalar_type() == at::kByte ? x : x.to(dtype), weight, bias, stride);
  return at::conv2d(x.to(dtype), weight.to(dtype), bias.to(dtype), stride).relu_();
}

}  // namespace shoal
