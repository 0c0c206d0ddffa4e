#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "src/envs/atari/area_resize.h"

namespace shoal {

// Converts the emulator's screens to observations, in grayscale or colour: the pixelwise maximum of
// the last two frames (sprites flicker), shrunk. Equal to Gymnasium's AtariPreprocessing, which
// keeps two buffers: the last but one frame of a step is written to `previous`, the last one to
// `newest`, and observing stores the maximum of both in `newest`. A step that ends early therefore
// shows the old content of the buffers.
//
// Most rows of a screen are unchanged after four frames, so only changed rows are processed.
class AtariFrames {
 public:
  struct Size {
    int height, width;  // of the emulator's screens
    int out;            // of the observation, both sides
    bool pool;          // two buffers; otherwise `newest` alone
  };
  // The brightness of the colours 0, 2, 4, ... in one plane of an observation.
  using Palette = std::array<std::uint8_t, 128>;
  using Palettes = std::span<const Palette>;
  // One plane per palette.
  AtariFrames(const Size& size, Palettes palettes);

  // Starts an episode: the previous buffer is black.
  void begin(const std::uint8_t* screen);
  void newest(const std::uint8_t* screen);
  void previous(const std::uint8_t* screen);
  // Writes [planes, out, out].
  void observe(std::uint8_t* observation);

  // The complete state of the buffers after an observation; its size is constant.
  std::size_t state_bytes() const { return pooled_.size(); }
  void save(std::byte* state) const;
  void load(const std::byte* state);

 private:
  // The planes are stacked vertically: `height` rows of the first, then of the next.
  struct Buffer {
    std::vector<std::uint8_t> colours, planes;
  };
  void write(Buffer& buffer, const std::uint8_t* screen);
  void pool();
  void forget();  // marks every row as changed

  Size size_;
  AreaResize resize_;
  std::vector<std::array<std::uint8_t, 256>> palettes_;  // indexed by colour
  Buffer newest_, previous_;
  std::vector<std::uint8_t> pooled_, small_;
  std::vector<std::uint8_t> changed_;  // one flag per row and plane, since the last observation
  bool newest_written_ = false;        // since the last observation
};

}  // namespace shoal
