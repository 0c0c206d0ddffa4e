#pragma once

#include <cstdint>

#include "shoal/algos/algo.h"

namespace shoal {

// The metrics after an update: numbers by name, always in the same order. Rows may lack some
// metrics, and new metrics may appear later.
struct LogRow {
  std::int64_t steps = 0;  // agent steps so far
  Metrics numbers;         // includes "seconds"

  double seconds() const {  // 0 if there is no "seconds"
    for (const auto& [name, number] : numbers)
      if (name == "seconds") return number;
    return 0;
  }
};

// Receives rows. Session::add_sink() adds a sink of your own.
class LogSink {
 public:
  virtual ~LogSink() = default;
  // Called by the session's thread for every row. Throws Error if the row cannot be written.
  virtual void write(const LogRow& row) = 0;
  // Waits until all rows are on disk. Called before each checkpoint, by rank 0. Throws as write()
  // does.
  virtual void sync() {}
};

}  // namespace shoal
