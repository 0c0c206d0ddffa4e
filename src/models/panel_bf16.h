#pragma once

#include <cstdint>

#include "src/models/panel_kernels.h"

namespace shoal {

// Products of panels with factors rounded to bfloat16 (8 significant bits) and sums in float32.
struct PanelBf16 {
  const char* instructions;
  // Like PanelKernels::product, without `add`, with a_step or a_row 1, and with an even number of
  // steps if there are several blocks.
  void (*product)(const PanelProduct&);
  // The same, with factors of 16 significant bits where that is faster than float32.
  void (*precise_product)(const PanelProduct&);
  // Like PanelKernels::multiply_add.
  std::int64_t (*multiply_add)(std::int64_t times);
};

// By tiles of 16 rows: 16 times the rate of AVX-512 in float32. Null if this CPU lacks the
// instructions, or the operating system does not let a process use them.
const PanelBf16* panel_amx();
// By pairs of factors: twice the rate of float32 on AMD's processors, half of it on Intel's. Null
// if this CPU lacks the instructions.
const PanelBf16* panel_avx512_bf16();
// The faster one; null if this CPU multiplies float32 faster.
const PanelBf16* panel_bf16();

}  // namespace shoal
