#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>

namespace shoal {

// Thrown for a user's mistake. The message says what was found, what was expected and what to do.
class Error : public std::runtime_error {
 public:
  template <class... Args>
  explicit Error(fmt::format_string<Args...> text, Args&&... args)
      : std::runtime_error(fmt::format(text, std::forward<Args>(args)...)) {}
};

template <class... Args>
void require(bool ok, fmt::format_string<Args...> text, Args&&... args) {
  if (!ok) throw Error(text, std::forward<Args>(args)...);
}

// A worker process died, threw, or exceeded its time limit. Thrown in the agent process; the worker
// group is unusable afterwards.
class WorkerError : public std::runtime_error {
 public:
  // `in_env`: the environment that the worker was running, or -1; `at_step`: that environment's
  // step.
  WorkerError(const std::string& text, int in_worker, std::int64_t in_env, std::int64_t at_step)
      : std::runtime_error(text), worker(in_worker), env(in_env), step(at_step) {}

  const int worker;
  const std::int64_t env, step;
};

}  // namespace shoal
