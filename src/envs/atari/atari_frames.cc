#include "src/envs/atari/atari_frames.h"

#include <algorithm>
#include <cstring>

namespace shoal {

AtariFrames::AtariFrames(const Size& size, Palettes palettes)
    : size_(size),
      resize_(size.height, size.width, size.out, size.out),
      palettes_(palettes.size()) {
  for (std::size_t p = 0; p < palettes.size(); ++p)
    for (std::size_t i = 0; i < palettes[p].size(); ++i) palettes_[p][2 * i] = palettes[p][i];
  const auto pixels = static_cast<std::size_t>(size.height) * size.width;
  for (Buffer* buffer : {&newest_, &previous_}) {
    buffer->colours.resize(pixels);
    buffer->planes.resize(palettes.size() * pixels);
  }
  pooled_.resize(palettes.size() * pixels);
  small_.resize(palettes.size() * size.out * size.out);
  changed_.resize(palettes.size() * size.height);
  forget();
}

void AtariFrames::forget() {
  constexpr std::uint8_t kNoColour = 1;  // colours are even
  std::ranges::fill(newest_.colours, kNoColour);
  std::ranges::fill(previous_.colours, kNoColour);
  std::ranges::fill(changed_, 1);
}

void AtariFrames::begin(const std::uint8_t* screen) {
  forget();
  std::ranges::fill(previous_.planes, 0);
  newest(screen);
}

void AtariFrames::newest(const std::uint8_t* screen) {
  write(newest_, screen);
  newest_written_ = true;
}

void AtariFrames::previous(const std::uint8_t* screen) { write(previous_, screen); }

void AtariFrames::write(Buffer& buffer, const std::uint8_t* screen) {
  const int width = size_.width;
  for (int y = 0; y < size_.height; ++y) {
    const std::uint8_t* from = screen + y * width;
    std::uint8_t* known = buffer.colours.data() + y * width;
    if (std::memcmp(from, known, width) == 0) continue;
    std::memcpy(known, from, width);
    for (std::size_t p = 0; p < palettes_.size(); ++p) {
      const auto row = p * size_.height + y;
      const std::uint8_t* palette = palettes_[p].data();
      std::uint8_t* to = buffer.planes.data() + row * width;
      for (int x = 0; x < width; ++x) to[x] = palette[from[x]];
      changed_[row] = 1;
    }
  }
}

void AtariFrames::pool() {
  const int width = size_.width;
  for (std::size_t row = 0; row < changed_.size(); ++row) {
    if (!changed_[row]) continue;
    std::uint8_t* out = pooled_.data() + row * width;
    const std::uint8_t* a = newest_written_ ? newest_.planes.data() + row * width : out;
    const std::uint8_t* b = previous_.planes.data() + row * width;
    if (!size_.pool)
      std::memmove(out, a, width);
    else
      for (int x = 0; x < width; ++x) out[x] = std::max(a[x], b[x]);
  }
}

void AtariFrames::observe(std::uint8_t* observation) {
  pool();
  std::uint8_t* out = small_.data();
  for (std::size_t p = 0; p < palettes_.size(); ++p) {
    const auto top = p * size_.height;
    for (int y = 0; y < size_.out; ++y, out += size_.out) {
      const auto first = changed_.begin() + top + resize_.first_row(y),
                 last = changed_.begin() + top + resize_.last_row(y);
      if (std::find(first, last + 1, 1) != last + 1)
        resize_.row(pooled_.data() + top * size_.width, y, out);
    }
  }
  std::memcpy(observation, small_.data(), small_.size());
  std::ranges::fill(changed_, 0);
  // `pooled_` then no longer derives from the buffers, so the next frames replace all of it.
  if (!newest_written_) forget();
  newest_written_ = false;
}

void AtariFrames::save(std::byte* state) const {
  std::memcpy(state, pooled_.data(), pooled_.size());
}

void AtariFrames::load(const std::byte* state) {
  std::memcpy(pooled_.data(), state, pooled_.size());
  std::ranges::fill(previous_.planes, 0);  // `pooled_` is at least as bright everywhere
  forget();
}

}  // namespace shoal
