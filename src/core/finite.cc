#include "shoal/core/finite.h"

#include <algorithm>
#include <cmath>

#include "src/core/cpu_features.h"

#if SHOAL_X86_KERNELS
#include <immintrin.h>
#endif

namespace shoal {

namespace {

bool is_finite(double x) { return std::isfinite(x); }

#if SHOAL_X86_KERNELS
// Zero times a finite number is zero, times any other NaN, and a sum keeps NaN: one instruction
// checks 32 bytes.
SHOAL_TARGET("avx2,fma") bool all_finite_avx2(const float* x, std::int64_t n) {
  const __m256 zero = _mm256_setzero_ps();
  __m256 a = zero, b = zero;
  std::int64_t i = 0;
  for (; i + 16 <= n; i += 16) {
    a = _mm256_fmadd_ps(_mm256_loadu_ps(x + i), zero, a);
    b = _mm256_fmadd_ps(_mm256_loadu_ps(x + i + 8), zero, b);
  }
  a = _mm256_add_ps(a, b);
  return _mm256_movemask_ps(_mm256_cmp_ps(a, a, _CMP_UNORD_Q)) == 0 &&
         std::all_of(x + i, x + n, is_finite);
}

SHOAL_TARGET("avx2,fma") bool all_finite_avx2(const double* x, std::int64_t n) {
  const __m256d zero = _mm256_setzero_pd();
  __m256d a = zero, b = zero;
  std::int64_t i = 0;
  for (; i + 8 <= n; i += 8) {
    a = _mm256_fmadd_pd(_mm256_loadu_pd(x + i), zero, a);
    b = _mm256_fmadd_pd(_mm256_loadu_pd(x + i + 4), zero, b);
  }
  a = _mm256_add_pd(a, b);
  return _mm256_movemask_pd(_mm256_cmp_pd(a, a, _CMP_UNORD_Q)) == 0 &&
         std::all_of(x + i, x + n, is_finite);
}

const bool kHasAvx2 = has_avx2();
#endif

template <class Number>
bool all_finite_of(const Number* x, std::int64_t n) {
#if SHOAL_X86_KERNELS
  if (kHasAvx2) return all_finite_avx2(x, n);
#endif
  return std::all_of(x, x + n, is_finite);
}

}  // namespace

bool all_finite(const float* x, std::int64_t n) { return all_finite_of(x, n); }
bool all_finite(const double* x, std::int64_t n) { return all_finite_of(x, n); }

const char* name_not_finite(double x) { return std::isnan(x) ? "NaN" : x > 0 ? "inf" : "-inf"; }

}  // namespace shoal
