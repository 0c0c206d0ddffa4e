#pragma once

#include "src/core/cpu_features.h"

#if SHOAL_X86_KERNELS
#include <immintrin.h>

#include <cstdint>

namespace shoal {

// Needed by every function with these instructions.
#define SHOAL_AMX \
  SHOAL_TARGET("amx-tile,amx-bf16,avx512bf16,avx512bw,avx512f,avx512dq,avx512vl,avx2,fma")

// A tile register has 16 rows of 64 bytes: 32 factors, or 16 sums. An instruction adds to the sums
// the product of a tile [16 rows][32 k] and a tile [16 pairs of k][16 columns][2].
constexpr std::int64_t kTile = 16, kTileDepth = 2 * kTile;

// How the tile registers are divided, as the instruction reads it: all eight alike.
struct TileShapes {
  std::uint8_t palette = 1, start_row = 0, reserved[14] = {};
  std::uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  std::uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};
static_assert(sizeof(TileShapes) == 64);
inline constexpr TileShapes kTileShapes;

}  // namespace shoal

#endif
