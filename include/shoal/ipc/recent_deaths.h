#pragma once

#include <algorithm>
#include <chrono>
#include <vector>

namespace shoal {

// Tells whether workers die too often to be started anew: five times within a minute. Waits that
// end in a death do not count as time, because a worker that hangs whenever it begins dies only
// once in each limit of a step or a reset.
class RecentDeaths {
 public:
  using Clock = std::chrono::steady_clock;

  // Adds a death. waited: for how long the worker had been waited for without a sign of life.
  // Returns whether it is one too many.
  bool add(Clock::time_point now, Clock::duration waited) {
    waits_ += waited;
    const auto time = now - waits_;
    std::erase_if(times_, [time](auto then) { return time - then > std::chrono::minutes(1); });
    times_.push_back(time);
    return times_.size() >= 5;
  }

 private:
  Clock::duration waits_{};  // of all deaths
  std::vector<Clock::time_point> times_;
};

}  // namespace shoal
