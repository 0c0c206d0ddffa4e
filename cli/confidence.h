#pragma once

#include <cstddef>

namespace shoal::cli {

// Half the width of the 95 % confidence interval of a mean (Student's t). squares: the sum of
// squared distances from the mean of `count` values; count >= 2.
double half_interval(double squares, std::size_t count);

}  // namespace shoal::cli
