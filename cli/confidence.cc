#include "cli/confidence.h"

#include <boost/math/distributions/students_t.hpp>
#include <cmath>

namespace shoal::cli {

double half_interval(double squares, std::size_t count) {
  const auto n = static_cast<double>(count);
  const double t = boost::math::quantile(boost::math::students_t(n - 1), 0.975);
  return t * std::sqrt(squares / (n - 1) / n);
}

}  // namespace shoal::cli
