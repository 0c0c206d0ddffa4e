#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>

#include "shoal/core/error.h"

namespace shoal {

// Throws Error unless ProcessGroup::sum() supports the layout and type of x; on any device.
inline void require_summable_type(const at::Tensor& x) {
  require(x.is_contiguous(), "sum over ranks: found a strided tensor, expected a contiguous one");
  const auto type = x.scalar_type();
  require(type == at::kFloat || type == at::kDouble || type == at::kLong,
          "sum over ranks: found {}, expected float32, float64 or int64", at::toString(type));
}

inline void require_summable(const at::Tensor& x) {
  require(x.device().is_cpu(), "sum over ranks: found a tensor on {}, expected one on the CPU",
          x.device().str());
  require_summable_type(x);
}

// Calls sum() with the elements of x, a span of float, double or int64.
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
