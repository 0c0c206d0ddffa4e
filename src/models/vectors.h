#pragma once

#include <cstdint>
#include <cstring>

#include "src/core/cpu_features.h"

// Shared by the kernels for small networks: GCC vectors.
namespace shoal {

constexpr std::int64_t kLanes = 8;
using Vec = float __attribute__((vector_size(kLanes * sizeof(float))));

// Inlined functions are compiled for the instruction set of their caller.
#define SHOAL_INLINE inline __attribute__((always_inline))

SHOAL_INLINE void load(Vec& v, const float* p) { std::memcpy(&v, p, sizeof v); }
SHOAL_INLINE void store(float* p, const Vec& v) { std::memcpy(p, &v, sizeof v); }

}  // namespace shoal
