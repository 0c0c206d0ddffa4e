#pragma once

#include <cstdint>
#include <cstring>

#include "shoal/core/host_device.h"

namespace shoal {

// The bits of a bfloat16, the upper half of a float32.
struct Bfloat16 {
  std::uint16_t bits;
};

// Rounds to nearest, ties to even. Not for NaN.
SHOAL_HOST_DEVICE inline Bfloat16 to_bfloat16(float x) {
  std::uint32_t bits = 0;
  std::memcpy(&bits, &x, sizeof(bits));
  const std::uint32_t last = bits >> 16 & 1;
  return {static_cast<std::uint16_t>((bits + 0x7FFF + last) >> 16)};
}

enum class PixelType : std::uint8_t { kFloat32, kBfloat16 };

// Converts N observations, stacks of stored frames, to the input of a network.
struct StackedFrames {
  const std::uint8_t* frame = nullptr;  // [M, planes, pixels]: each stored frame once
  // [N, stack]: the frames of observation n, oldest first; -1 is a blank (zeros). nullptr: stack is
  // 1, and observation n is frame n.
  const std::int64_t* index = nullptr;
  // [N, stack * planes, pixels], or [N, pixels, stack * planes] if channels_last: value * scale,
  // rounded once to `type`. A frame's planes are adjacent. Aligned to 16 bytes.
  void* out = nullptr;
  PixelType type = PixelType::kFloat32;
  bool channels_last = true;
  float scale = 1;  // 1: 0..255, which both types represent exactly
  std::int64_t N = 0, stack = 1;
  std::int64_t planes = 1, pixels = 0;  // per frame: colour planes, and height * width
};

template <class Pixel>
SHOAL_HOST_DEVICE inline Pixel scaled_pixel(std::uint8_t value, float scale);
template <>
SHOAL_HOST_DEVICE inline float scaled_pixel<float>(std::uint8_t value, float scale) {
  return static_cast<float>(value) * scale;
}
template <>
SHOAL_HOST_DEVICE inline Bfloat16 scaled_pixel<Bfloat16>(std::uint8_t value, float scale) {
  return to_bfloat16(static_cast<float>(value) * scale);
}

// Frame k of observation n; nullptr for a blank.
SHOAL_HOST_DEVICE inline const std::uint8_t* frame_of(const StackedFrames& in, std::int64_t n,
                                                      std::int64_t k) {
  const auto which = in.index != nullptr ? in.index[n * in.stack + k] : n;
  return which < 0 ? nullptr : in.frame + which * in.planes * in.pixels;
}

// Writes pixel p of observation n, all its channels. Pixel: float or Bfloat16.
template <class Pixel>
SHOAL_HOST_DEVICE inline void write_pixel(const StackedFrames& in, std::int64_t n, std::int64_t p) {
  const auto channels = in.stack * in.planes;
  auto* to = static_cast<Pixel*>(in.out) + n * channels * in.pixels;
  for (std::int64_t k = 0; k < in.stack; ++k) {
    const auto* frame = frame_of(in, n, k);
    for (std::int64_t plane = 0; plane < in.planes; ++plane) {
      const auto c = k * in.planes + plane;
      const auto value = frame != nullptr ? frame[plane * in.pixels + p] : std::uint8_t{0};
      to[in.channels_last ? p * channels + c : c * in.pixels + p] =
          scaled_pixel<Pixel>(value, in.scale);
    }
  }
}

template <class Pixel>
struct alignas(4 * sizeof(Pixel)) FourPixels {
  Pixel channel[4];
};

// The common case of write_pixel(): four channels from four grayscale frames, channels last. It
// needs one store instead of four scattered ones.
template <class Pixel>
SHOAL_HOST_DEVICE inline void write_pixel_of_four(const StackedFrames& in, std::int64_t n,
                                                  std::int64_t p) {
  FourPixels<Pixel> all;
  for (std::int64_t k = 0; k < 4; ++k) {
    const auto* frame = frame_of(in, n, k);
    all.channel[k] = scaled_pixel<Pixel>(frame != nullptr ? frame[p] : std::uint8_t{0}, in.scale);
  }
  static_cast<FourPixels<Pixel>*>(in.out)[n * in.pixels + p] = all;
}

SHOAL_HOST_DEVICE inline bool is_four_grey_frames(const StackedFrames& in) {
  return in.channels_last && in.stack == 4 && in.planes == 1;
}

}  // namespace shoal
