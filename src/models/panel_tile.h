#pragma once

#include <algorithm>

#include "src/models/panel_kernels.h"
#include "src/models/vector_math.h"

namespace shoal {

// What was summed up for a vector of a row's columns, from `column` on, into the product.
template <int kWidth>
SHOAL_INLINE void store_product(const PanelProduct& p, std::int64_t row, std::int64_t column,
                                const typename Lanes<kWidth>::Float& sum) {
  using V = typename Lanes<kWidth>::Float;
  V y = sum;
  if (p.relu) y = y > 0.0F ? y : V{};
  if (p.mask) {
    V mask;
    load_lanes(mask, p.mask + row * kPanel + column);
    y = mask > 0.0F ? y : V{};
  }
  float* to = p.c + row * p.c_row + column;
  const auto left = p.columns - column;
  if (left >= kWidth) {
    store_lanes(to, y);
  } else if (left > 0) {
    float last[kWidth];
    store_lanes(last, y);
    std::copy_n(last, left, to);
  }
}

}  // namespace shoal
