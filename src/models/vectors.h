#pragma once

#include <cstdint>
#include <cstring>

// Shared by the kernels for small networks: GCC vectors, and the instruction sets of this CPU.
namespace shoal {

constexpr std::int64_t kLanes = 8;
using Vec = float __attribute__((vector_size(kLanes * sizeof(float))));

// Inlined functions are compiled for the instruction set of their caller.
#define SHOAL_INLINE inline __attribute__((always_inline))

SHOAL_INLINE void load(Vec& v, const float* p) { std::memcpy(&v, p, sizeof v); }
SHOAL_INLINE void store(float* p, const Vec& v) { std::memcpy(p, &v, sizeof v); }

inline bool has_avx2() { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"); }

}  // namespace shoal
