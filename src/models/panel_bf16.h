#pragma once

#include <cstdint>

#include "src/models/panel_kernels.h"

namespace shoal {

// Products of panels with factors rounded to bfloat16 (8 significant bits) and sums in float32: two
// multiplications in the time of one in float32.
struct PanelBf16 {
  // Like PanelKernels::product, with a_step or a_row 1, and an even number of steps if there are
  // several blocks.
  void (*product)(const PanelProduct&);
  // Like PanelKernels::multiply_add.
  std::int64_t (*multiply_add)(std::int64_t times);
};

// Null if this CPU lacks the instructions (AVX512-BF16).
const PanelBf16* panel_bf16();

}  // namespace shoal
