#include "src/envs/atari_frames.h"

#include <algorithm>
#include <cstring>

namespace shoal {

AtariFrames::AtariFrames(const Size& size, std::span<const std::uint8_t, 128> gray)
    : size_(size), resize_(size.height, size.width, size.out) {
  for (std::size_t i = 0; i < gray.size(); ++i) gray_[2 * i] = gray[i];
  const auto pixels = static_cast<std::size_t>(size.height) * size.width;
  for (Buffer* buffer : {&newest_, &previous_}) {
    buffer->colours.resize(pixels);
    buffer->gray.resize(pixels);
  }
  pooled_.resize(pixels);
  small_.resize(static_cast<std::size_t>(size.out) * size.out);
  changed_.resize(size.height);
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
  std::ranges::fill(previous_.gray, 0);
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
    std::uint8_t* gray = buffer.gray.data() + y * width;
    for (int x = 0; x < width; ++x) gray[x] = gray_[from[x]];
    changed_[y] = 1;
  }
}

void AtariFrames::pool() {
  const int width = size_.width;
  for (int y = 0; y < size_.height; ++y) {
    if (!changed_[y]) continue;
    std::uint8_t* out = pooled_.data() + y * width;
    const std::uint8_t* a = newest_written_ ? newest_.gray.data() + y * width : out;
    const std::uint8_t* b = previous_.gray.data() + y * width;
    if (!size_.pool)
      std::memmove(out, a, width);
    else
      for (int x = 0; x < width; ++x) out[x] = std::max(a[x], b[x]);
  }
}

void AtariFrames::observe(std::uint8_t* observation) {
  pool();
  for (int y = 0; y < size_.out; ++y) {
    const auto first = changed_.begin() + resize_.first_row(y),
               last = changed_.begin() + resize_.last_row(y);
    if (std::find(first, last + 1, 1) != last + 1)
      resize_.row(pooled_.data(), y, small_.data() + y * size_.out);
  }
  std::memcpy(observation, small_.data(), small_.size());
  std::ranges::fill(changed_, 0);
  // What is in `pooled_` is then no longer made of what the buffers hold: the next frames replace
  // it all.
  if (!newest_written_) forget();
  newest_written_ = false;
}

void AtariFrames::save(std::byte* state) const {
  std::memcpy(state, pooled_.data(), pooled_.size());
  std::memcpy(state + pooled_.size(), previous_.gray.data(), pooled_.size());
}

void AtariFrames::load(const std::byte* state) {
  std::memcpy(pooled_.data(), state, pooled_.size());
  std::memcpy(previous_.gray.data(), state + pooled_.size(), pooled_.size());
  forget();
}

}  // namespace shoal
