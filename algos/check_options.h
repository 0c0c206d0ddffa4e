#pragma once

#include "shoal/core/error.h"

namespace shoal {

// What the options of every algorithm that makes the steps of an Optimizer must hold. Throws Error
// naming "<algo>.<option>".
template <class Options>
void check_optimization(const char* algo, const Options& o) {
  require(o.learning_rate > 0, "{}.learning_rate is {}; it must be positive", algo,
          o.learning_rate);
  require(o.optimizer_epsilon > 0, "{}.optimizer_epsilon is {}; it must be positive", algo,
          o.optimizer_epsilon);
  require(o.max_grad_norm >= 0, "{}.max_grad_norm is {}; it must not be negative", algo,
          o.max_grad_norm);
}

// Likewise of every on-policy algorithm.
template <class Options>
void check_options(const char* algo, const Options& o) {
  check_optimization(algo, o);
  require(o.discount >= 0 && o.discount <= 1, "{}.discount is {}; it must lie in [0, 1]", algo,
          o.discount);
  require(o.gae_lambda >= 0 && o.gae_lambda <= 1, "{}.gae_lambda is {}; it must lie in [0, 1]",
          algo, o.gae_lambda);
}

}  // namespace shoal
