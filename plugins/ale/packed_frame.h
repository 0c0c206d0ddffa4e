// SPDX-License-Identifier: MIT
//
// Frames of 160 pixels a line in few bytes. A line is 0 if it is the one above it (the first:
// zeros), otherwise the number of its runs, and for each run its length and its colour.
#ifndef SHOAL_PLUGINS_ALE_PACKED_FRAME_H_
#define SHOAL_PLUGINS_ALE_PACKED_FRAME_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <stdexcept>
#include <string>

constexpr std::size_t kLine = 160;

inline void pack(std::span<const std::uint8_t> frame, std::string& to) {
  std::array<std::uint8_t, kLine> above{};
  for (; !frame.empty(); frame = frame.subspan(kLine)) {
    const auto line = frame.first(kLine);
    if (std::memcmp(line.data(), above.data(), kLine) == 0) {
      to.push_back(0);
      continue;
    }
    const auto count_at = to.size();
    to.push_back(0);
    for (std::size_t from = 0; from < kLine; ++to[count_at]) {
      const auto colour = line[from];
      const auto end = std::find_if(line.begin() + static_cast<std::ptrdiff_t>(from), line.end(),
                                    [colour](auto pixel) { return pixel != colour; });
      const auto next = static_cast<std::size_t>(end - line.begin());
      to.push_back(static_cast<char>(next - from));
      to.push_back(static_cast<char>(colour));
      from = next;
    }
    std::ranges::copy(line, above.begin());
  }
}

// Removes a frame from the front of the bytes. Throws std::runtime_error if they hold none.
inline void unpack(std::span<const std::uint8_t>& from, std::span<std::uint8_t> frame) {
  const auto take = [&from] {
    if (from.empty()) throw std::runtime_error("invalid saved state");
    const auto byte = from.front();
    from = from.subspan(1);
    return byte;
  };
  std::array<std::uint8_t, kLine> line{};
  for (; !frame.empty(); frame = frame.subspan(kLine)) {
    std::size_t at = 0;
    const int runs = take();
    for (int run = 0; run < runs; ++run) {
      const std::size_t length = take();
      if (length > kLine - at) throw std::runtime_error("invalid saved state");
      std::fill_n(line.begin() + static_cast<std::ptrdiff_t>(at), length, take());
      at += length;
    }
    if (runs != 0 && at != kLine) throw std::runtime_error("invalid saved state");
    std::ranges::copy(line, frame.begin());
  }
}

#endif  // SHOAL_PLUGINS_ALE_PACKED_FRAME_H_
