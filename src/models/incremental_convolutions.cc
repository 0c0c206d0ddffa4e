#include "src/models/incremental_convolutions.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "src/core/divide_up.h"
#include "src/models/panel_kernels.h"

namespace shoal {

namespace {

using Flags = std::vector<std::uint8_t>;

// Patches of pixels that are converted to floats together: few enough for the L1 cache, and whole
// tiles of the kernel, of 6 or 12 rows or, in bfloat16, of 32.
constexpr std::size_t kPatches = 24, kPatchesBf16 = 32;

const auto kWiden = panel_kernels().widen;

}  // namespace

IncrementalConvolutions::IncrementalConvolutions(const std::vector<Layer>& layers,
                                                 std::int64_t height, std::int64_t width, bool bf16)
    : height_(height),
      width_(width),
      channels_(layers.front().weight.size(3)),
      patch_(layers.front().weight.size(1)),
      block_(layers.front().stride) {
  for (const auto& layer : layers) {
    const bool pixels = convolutions_.empty();
    const auto size = layer.weight.size(1), channels = layer.weight.size(3), stride = layer.stride;
    const auto out_height = (height - size) / stride + 1, out_width = (width - size) / stride + 1;
    // Patches of pixels are copied to consecutive memory; inputs of other layers are read in place.
    const RowLayout row =
        pixels ? RowLayout{.length = size * size * channels}
               : RowLayout{.segments = size, .length = size * channels, .stride = width * channels};
    Convolution c{.gemm = GatherGemm(layer.weight, layer.bias, row, true, bf16),
                  .places = {},
                  .in_width = pixels ? divide_up(width, stride) : width,
                  .size = pixels ? divide_up(size, stride) : size,
                  .stride = pixels ? 1 : stride,
                  .out_height = out_height,
                  .out_width = out_width};
    for (std::int64_t y = 0; y < out_height; ++y)
      for (std::int64_t x = 0; x < out_width; ++x)
        c.places.push_back(
            {(y * width + x) * stride * channels, (y * out_width + x) * c.gemm.row_of_y()});
    convolutions_.push_back(std::move(c));
    height = out_height, width = out_width;
  }
}

void IncrementalConvolutions::find_changes(const std::uint8_t* image, Memory& memory,
                                           Flags& changed) const {
  const auto columns = divide_up(width_, block_);
  const bool is_new = memory.image.empty();
  changed.assign(static_cast<std::size_t>(columns * divide_up(height_, block_)), is_new);
  if (is_new) {
    memory.image.assign(image, image + image_bytes());
    memory.outputs.clear();
    for (std::size_t i = 0; i + 1 < convolutions_.size(); ++i)
      memory.outputs.emplace_back(static_cast<std::size_t>(convolutions_[i].outputs()));
    return;
  }
  const auto line = width_ * channels_, part = block_ * channels_;
  for (std::int64_t y = 0; y < height_; ++y) {
    const auto* now = image + y * line;
    auto* before = memory.image.data() + y * line;
    if (std::memcmp(now, before, static_cast<std::size_t>(line)) == 0) continue;
    auto* flag = changed.data() + y / block_ * columns;
    for (std::int64_t at = 0; at < line; at += part, ++flag) {
      const auto n = static_cast<std::size_t>(std::min(part, line - at));
      if (std::memcmp(now + at, before + at, n) != 0) *flag = 1;
    }
    std::memcpy(before, now, static_cast<std::size_t>(line));
  }
}

void IncrementalConvolutions::convolve_pixels(const std::uint8_t* image,
                                              std::span<const GatherGemm::Place> places,
                                              float* y) const {
  const auto run = patch_ * channels_, length = patch_ * run;
  thread_local std::vector<float> patches;
  const auto& gemm = convolutions_.front().gemm;
  const auto most = gemm.multiplies_bf16() ? kPatchesBf16 : kPatches;
  patches.resize(most * static_cast<std::size_t>(length));
  std::array<GatherGemm::Place, std::max(kPatches, kPatchesBf16)> rows;
  while (!places.empty()) {
    const auto count = std::min(most, places.size());
    float* to = patches.data();
    for (std::size_t i = 0; i < count; ++i) {
      rows[i] = {to - patches.data(), places[i].y};
      for (std::int64_t line = 0; line < patch_; ++line, to += run)
        kWiden(image + places[i].x + line * width_ * channels_, run, to);
    }
    gemm.run(patches.data(), std::span(rows).first(count), y);
    places = places.subspan(count);
  }
}

void IncrementalConvolutions::run(const std::uint8_t* image, Memory& memory,
                                  float* features) const {
  thread_local Flags changed, next;
  thread_local std::vector<GatherGemm::Place> places;
  find_changes(image, memory, changed);
  for (std::size_t i = 0; i < convolutions_.size(); ++i) {
    const auto& c = convolutions_[i];
    next.assign(c.places.size(), 0);
    places.clear();
    for (std::int64_t y = 0, k = 0; y < c.out_height; ++y) {
      for (std::int64_t x = 0; x < c.out_width; ++x, ++k) {
        const auto* field = changed.data() + (y * c.in_width + x) * c.stride;
        std::uint8_t any = 0;
        for (std::int64_t line = 0; line < c.size; ++line, field += c.in_width)
          for (std::int64_t n = 0; n < c.size; ++n) any |= field[n];
        if (!any) continue;
        next[static_cast<std::size_t>(k)] = 1;
        places.push_back(c.places[static_cast<std::size_t>(k)]);
      }
    }
    float* y = i + 1 < convolutions_.size() ? memory.outputs[i].data() : features;
    if (i == 0) {
      convolve_pixels(image, places, y);
    } else {
      c.gemm.run(memory.outputs[i - 1].data(), places, y);
    }
    changed.swap(next);
  }
}

}  // namespace shoal
