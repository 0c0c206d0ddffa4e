#pragma once

#include <cstdint>
#include <stdexcept>

#include "shoal/core/error.h"

namespace shoal {

// A number is NaN or infinite, or an action mask allows no action, so nothing can be learned. It
// ends the run, whatever OnDeath says.
class DataError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// The WorkerError of a worker that threw a DataError.
class WorkerDataError : public WorkerError {
 public:
  using WorkerError::WorkerError;
};

// Whether all n numbers are finite.
bool all_finite(const float* x, std::int64_t n);
bool all_finite(const double* x, std::int64_t n);

// "NaN", "inf" or "-inf".
const char* name_not_finite(double x);

}  // namespace shoal
