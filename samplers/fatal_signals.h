#pragma once

#include <functional>
#include <string>

namespace shoal {

// While an object exists, report() is called before this process ends by a fatal signal or by
// exit(). If it returns true, exit(0) becomes a failure, with status 1. For a signal it is called
// in a forked copy of the process, which is killed after ten seconds: the signal may have come
// while the memory allocator held a lock. Children of this process report nothing.
class FatalSignals {
 public:
  using Report = std::function<bool(const std::string& how)>;
  explicit FatalSignals(Report report);
  ~FatalSignals();
  FatalSignals(const FatalSignals&) = delete;
  FatalSignals& operator=(const FatalSignals&) = delete;

 private:
  struct Hooks;
  Report report_;
};

}  // namespace shoal
