#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "src/envs/area_resize.h"

namespace shoal {

// Turns the emulator's pictures into observations: gray, the brighter of the last two frames for
// each pixel (sprites flicker), shrunk. Equal to Gymnasium's AtariPreprocessing, which keeps two
// buffers: `previous` is written by the last but one frame of a step, `newest` by the last one, and
// observing leaves the brighter of both in `newest`. A step that breaks off early therefore shows
// what the buffers still hold.
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
  // gray: brightness of the colours 0, 2, 4, ...
  AtariFrames(const Size& size, std::span<const std::uint8_t, 128> gray);

  // Starts an episode: the previous buffer is black.
  void begin(const std::uint8_t* screen);
  void newest(const std::uint8_t* screen);
  void previous(const std::uint8_t* screen);
  // Writes [out, out].
  void observe(std::uint8_t* observation);

  // The buffers' complete state, always of the same size.
  std::size_t state_bytes() const { return 2 * pooled_.size(); }
  void save(std::byte* state) const;
  void load(const std::byte* state);

 private:
  struct Buffer {
    std::vector<std::uint8_t> colours, gray;
  };
  void write(Buffer& buffer, const std::uint8_t* screen);
  void pool();
  void forget();  // nothing is known to be unchanged any more

  Size size_;
  AreaResize resize_;
  std::array<std::uint8_t, 256> gray_{};
  Buffer newest_, previous_;
  std::vector<std::uint8_t> pooled_, small_;
  std::vector<std::uint8_t> changed_;  // one flag a row, since the last observation
  bool newest_written_ = false;        // since the last observation
};

}  // namespace shoal
