#pragma once

#include <cstdint>
#include <vector>

#include "shoal/core/spec.h"
#include "shoal/models/model_options.h"

namespace shoal {

// Whether an observation field is read by convolutions: see model_for().
bool is_picture(const ArraySpec& field);
// Whether the layers of Mnih et al. (2015) leave at least one pixel of it.
bool fits_nature_cnn(const ArraySpec& picture);

struct ConvLayer {
  std::int64_t filters, size, stride;
};
// The layers for a picture, if they are not residual; empty for kImpala. Throws Error if they do
// not fit the picture.
std::vector<ConvLayer> conv_layers(const ArraySpec& picture, const ModelOptions& options);
// Pixels along one side after a layer without padding.
inline std::int64_t side_after(const ConvLayer& layer, std::int64_t side) {
  return side < layer.size ? 0 : (side - layer.size) / layer.stride + 1;
}

// Filters of the three blocks of the residual network; each block halves the sides, rounded up.
inline constexpr std::int64_t kImpalaFilters[] = {16, 32, 32};
// Outputs of the layer after the convolutions.
std::int64_t cnn_features(const ArraySpec& picture, const ModelOptions& options);

}  // namespace shoal
