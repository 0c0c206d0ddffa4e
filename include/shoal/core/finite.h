#pragma once

#include <cstdint>
#include <stdexcept>

#include "shoal/core/error.h"

namespace shoal {

// A number that is NaN or infinite, or an action mask that allows nothing: nothing can be learned
// from it. It ends a run, whatever OnDeath says.
class DataError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// The WorkerError of a worker that threw a DataError.
class WorkerDataError : public WorkerError {
 public:
  using WorkerError::WorkerError;
};

// Whether none of n numbers is NaN or infinite.
bool all_finite(const float* x, std::int64_t n);
bool all_finite(const double* x, std::int64_t n);

// "NaN", "inf" or "-inf".
const char* name_not_finite(double x);

}  // namespace shoal
