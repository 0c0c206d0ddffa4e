#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "src/envs/atari/area_resize.h"

namespace shoal {

// Turns the emulator's pictures into observations: gray or in colour, in each plane the brighter of
// the last two frames for each pixel (sprites flicker), shrunk. Equal to Gymnasium's
// AtariPreprocessing, which keeps two buffers: `previous` is written by the last but one frame of a
// step, `newest` by the last one, and observing leaves the brighter of both in `newest`. A step
// that breaks off early therefore shows what the buffers still hold.
//
// Most rows of a picture are as they were four frames ago, so only rows that changed go through the
// mill.
class AtariFrames {
 public:
  struct Size {
    int height, width;  // of the emulator's pictures
    int out;            // of the observation, both sides
    bool pool;          // two buffers; otherwise `newest` alone
  };
  // How bright a plane of an observation shows the colours 0, 2, 4, ...
  using Palette = std::array<std::uint8_t, 128>;
  using Palettes = std::span<const Palette>;
  // One plane for each palette.
  AtariFrames(const Size& size, Palettes palettes);

  // Starts an episode: the previous buffer is black.
  void begin(const std::uint8_t* screen);
  void newest(const std::uint8_t* screen);
  void previous(const std::uint8_t* screen);
  // Writes [planes, out, out].
  void observe(std::uint8_t* observation);

  // The buffers' complete state after an observation, always of the same size.
  std::size_t state_bytes() const { return pooled_.size(); }
  void save(std::byte* state) const;
  void load(const std::byte* state);

 private:
  // The planes of a picture lie one below the other: `height` rows of the first, then of the next.
  struct Buffer {
    std::vector<std::uint8_t> colours, planes;
  };
  void write(Buffer& buffer, const std::uint8_t* screen);
  void pool();
  void forget();  // nothing is known to be unchanged any more

  Size size_;
  AreaResize resize_;
  std::vector<std::array<std::uint8_t, 256>> palettes_;  // by the colours themselves
  Buffer newest_, previous_;
  std::vector<std::uint8_t> pooled_, small_;
  std::vector<std::uint8_t> changed_;  // one flag a row of each plane, since the last observation
  bool newest_written_ = false;        // since the last observation
};

}  // namespace shoal
