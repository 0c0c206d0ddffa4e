#pragma once

#include <algorithm>
#include <cstdint>

#include "src/core/divide_up.h"

namespace shoal {

// The number of images whose weight gradients are added up by one thread after the other, in memory
// of their own: at least 16 images, in at most 16 chunks, with at most 2^24 numbers in all of them.
// It depends on sizes alone, so gradients do not depend on the number of threads.
inline std::int64_t images_of_chunk(std::int64_t images, std::int64_t weights) {
  constexpr std::int64_t kLeastImages = 16, kMostChunks = 16, kMostNumbers = std::int64_t{1} << 24;
  const auto chunks = std::clamp<std::int64_t>(kMostNumbers / weights, 1, kMostChunks);
  return std::max(kLeastImages, divide_up(images, chunks));
}

}  // namespace shoal
