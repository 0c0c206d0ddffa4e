#pragma once

#include <algorithm>

#include "src/models/panel_kernels.h"
#include "src/models/vector_math.h"

namespace shoal {

// Stores the sums of a tile at `row` and `column` to the product. The three cases are separate
// loops to keep the sums in registers: with a single loop GCC accumulates one of them in memory,
// which takes twice the time.
template <int kWidth, class Sum, int kRows, int kVecs>
SHOAL_INLINE void store_tile(const PanelProduct& p, std::int64_t row, std::int64_t column,
                             Sum (&sum)[kRows][kVecs]) {
  using V = typename Lanes<kWidth>::Float;
  constexpr std::int64_t kColumns = kVecs * kWidth;
  float* const c = p.c + row * p.c_row + column;
  const auto c_row = p.c_row, left = p.columns - column;
  const bool whole = left >= kColumns;
  float room[kRows * kColumns];
  float* const to = whole ? c : room;
  const auto to_row = whole ? c_row : kColumns;
  if (p.relu) {
    for (int r = 0; r < kRows; ++r) {
      for (int v = 0; v < kVecs; ++v) {
        const V y = sum[r][v];
        store_lanes(to + r * to_row + v * kWidth, y < 0.0F ? V{} : y);  // propagates NaN
      }
    }
  } else if (p.mask) {
    const float* const mask = p.mask + row * kPanel + column;
    for (int r = 0; r < kRows; ++r) {
      for (int v = 0; v < kVecs; ++v) {
        V m;
        load_lanes(m, mask + r * kPanel + v * kWidth);
        store_lanes(to + r * to_row + v * kWidth, m <= 0.0F ? V{} : V(sum[r][v]));
      }
    }
  } else {
    for (int r = 0; r < kRows; ++r)
      for (int v = 0; v < kVecs; ++v) store_lanes(to + r * to_row + v * kWidth, sum[r][v]);
  }
  for (int r = 0; !whole && r < kRows; ++r) std::copy_n(room + r * kColumns, left, c + r * c_row);
}

}  // namespace shoal
