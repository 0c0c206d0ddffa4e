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

// The tile registers of this thread are for use while an object exists: one at a time, because the
// end of any of them takes the registers away.
class ConfiguredTiles {
 public:
  SHOAL_AMX ConfiguredTiles() { _tile_loadconfig(&kTileShapes); }  // fills them with zeros
  SHOAL_AMX ~ConfiguredTiles() { _tile_release(); }
  ConfiguredTiles(const ConfiguredTiles&) = delete;
  ConfiguredTiles& operator=(const ConfiguredTiles&) = delete;
};

// A square is four tiles of sums, 32 x 32: 0 and 1 beside each other, 2 and 3 below them.

SHOAL_AMX SHOAL_INLINE void clear_square() {
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
}

// row: numbers between rows.
SHOAL_AMX SHOAL_INLINE void load_square(const float* from, std::int64_t row) {
  asm volatile("" ::: "memory");  // g++ 12 does not know that loading a tile reads memory
  _tile_loadd(0, from, row * 4);
  _tile_loadd(1, from + kTile, row * 4);
  _tile_loadd(2, from + kTile * row, row * 4);
  _tile_loadd(3, from + kTile * row + kTile, row * 4);
}
SHOAL_AMX SHOAL_INLINE void store_square(float* to, std::int64_t row) {
  _tile_stored(0, to, row * 4);
  _tile_stored(1, to + kTile, row * 4);
  _tile_stored(2, to + kTile * row, row * 4);
  _tile_stored(3, to + kTile * row + kTile, row * 4);
}

// kRows tiles of a below each other times kColumns of b beside each other. a_row, b_row: bytes
// between rows; b_tile: bytes between the tiles.
template <int kRows = 2, int kColumns = 2>
SHOAL_AMX SHOAL_INLINE void add_to_square(const void* a, std::int64_t a_row, const void* b,
                                          std::int64_t b_row, std::int64_t b_tile) {
  const char *const left = static_cast<const char*>(a), *const right = static_cast<const char*>(b);
  asm volatile("" ::: "memory");
  _tile_loadd(4, left, a_row);
  _tile_loadd(6, right, b_row);
  if constexpr (kColumns == 2) _tile_loadd(7, right + b_tile, b_row);
  if constexpr (kRows == 2) _tile_loadd(5, left + kTile * a_row, a_row);
  _tile_dpbf16ps(0, 4, 6);
  if constexpr (kColumns == 2) _tile_dpbf16ps(1, 4, 7);
  if constexpr (kRows == 2) _tile_dpbf16ps(2, 5, 6);
  if constexpr (kRows == 2 && kColumns == 2) _tile_dpbf16ps(3, 5, 7);
}

// The intrinsics without a mask make g++ 12 warn of the lanes that a mask would leave out.
constexpr __mmask16 kAllLanes = 0xFFFF;

// Propagates NaN: max() returns its second operand if one is not a number.
SHOAL_AMX inline __m512 relu(__m512 x) {
  return _mm512_maskz_max_ps(kAllLanes, _mm512_setzero_ps(), x);
}

}  // namespace shoal

#endif
