#include "src/models/convolution.h"

#include <ATen/ATen.h>
#include <ATen/TracerMode.h>
#include <ATen/cpu/Utils.h>

#include "src/models/stacked_frames.h"
#include "src/models/winograd.h"

namespace shoal {

namespace {

// An export traces operations that other programs know.
bool is_traced() { return at::tracer::impl::is_dispatch_enabled(); }

}  // namespace

bool has_fast_bf16() {
  static const bool kHas = [] {
    const auto all = at::cpu::get_cpu_capabilities();
    const auto found = all.find("amx_bf16");
    return found != all.end() && found->second.toBool();
  }();
  return kHas;
}

at::ScalarType arithmetic_of(Precision precision, const at::Device& device) {
  const bool slow = device.is_cpu() && !has_fast_bf16();
  return precision == Precision::kBf16 && !slow ? at::kBFloat16 : at::kFloat;
}

at::Tensor pictures(const Observed& observation, at::ScalarType arithmetic) {
  const auto& data = observation.data;
  const bool bytes = data.is_cpu() && data.scalar_type() == at::kByte && arithmetic == at::kFloat;
  return images(observation, bytes && !is_traced() ? at::kByte : arithmetic);
}

at::Tensor relu_convolution(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                            std::int64_t stride, at::ScalarType arithmetic) {
  if (arithmetic == at::kFloat && !is_traced() && fits_winograd(x, weight, stride))
    return winograd_convolution(x, weight, bias, stride);
  return at::conv2d(x.to(arithmetic), weight.to(arithmetic), bias.to(arithmetic), stride).relu_();
}

}  // namespace shoal
