#pragma once

#include <cstdint>

#include "shoal/algos/algo.h"

namespace shoal {

// What there is to tell after an update: numbers by name, always in the same order. Some may come
// later than others, and some may be missing now and then.
struct LogRow {
  std::int64_t steps = 0;  // agent steps taken so far
  Metrics numbers;         // "seconds" among them

  double seconds() const {  // 0 if they are not
    for (const auto& [name, number] : numbers)
      if (name == "seconds") return number;
    return 0;
  }
};

// Where rows go. To add one of your own: Session::add_sink().
class LogSink {
 public:
  virtual ~LogSink() = default;
  // Called by the session's thread after every update. Throws Error if the row cannot be written.
  virtual void write(const LogRow& row) = 0;
  // Waits until all rows are on the disk, before each checkpoint. Throws as write().
  virtual void sync() {}
};

}  // namespace shoal
