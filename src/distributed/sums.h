#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>

#include "shoal/core/error.h"

namespace shoal {

// Throws Error unless x is what ProcessGroup::sum() takes, wherever it is.
inline void require_summable_type(const at::Tensor& x) {
  require(x.is_contiguous(), "ranks add up contiguous tensors; found one that is not");
  const auto type = x.scalar_type();
  require(type == at::kFloat || type == at::kDouble || type == at::kLong,
          "ranks add up float32, float64 or int64; found {}", at::toString(type));
}

inline void require_summable(const at::Tensor& x) {
  require(x.device().is_cpu(), "these ranks add up tensors on the CPU; found one on {}",
          x.device().str());
  require_summable_type(x);
}

// Calls sum(numbers of x), a span of float, double or int64.
template <class Sum>
void sum_numbers(const at::Tensor& x, const Sum& sum) {
  require_summable(x);
  const auto numbers = [&]<class T>(T*) {
    return std::span<T>(x.data_ptr<T>(), static_cast<std::size_t>(x.numel()));
  };
  if (x.scalar_type() == at::kFloat)
    sum(numbers(static_cast<float*>(nullptr)));
  else if (x.scalar_type() == at::kDouble)
    sum(numbers(static_cast<double*>(nullptr)));
  else
    sum(numbers(static_cast<std::int64_t*>(nullptr)));
}

}  // namespace shoal
