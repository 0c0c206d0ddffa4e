#pragma once

#include <cstdint>
#include <span>

#include "src/models/gather_gemm.h"

namespace shoal {

// y = act(X W + b) of GatherGemm with inputs rounded to bfloat16 and sums in float32, by tiles.
struct GatheredProduct {
  RowLayout row;
  const float* x;
  std::span<const GatherGemm::Place> rows;
  const GatherGemm::InputPair* weights;  // [blocks][row.size() / 2]
  const float* bias;                     // [blocks][16]
  bool relu;
  float* y;
  std::int64_t from, to;  // blocks
};

// Whether this CPU has AMX, and the runs of such rows fill tiles.
bool fits_amx_gather(const RowLayout& row);

void amx_gather(const GatheredProduct& p);

}  // namespace shoal
