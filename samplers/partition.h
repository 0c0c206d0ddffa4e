#pragma once

#include <cstdint>

namespace shoal {

// The environments [first, last).
struct Range {
  std::int64_t first = 0, last = 0;
  std::int64_t size() const { return last - first; }
  bool empty() const { return first == last; }
};

// Group `group` of `groups`.
Range group_range(std::int64_t envs, int groups, int group);

// What worker `worker` of `workers` steps of a group. Where a group does not divide evenly, the
// next one goes on with the worker after the last that got one more, so that over all groups no
// worker has two environments more than another.
Range worker_range(std::int64_t envs, int groups, int group, int workers, int worker);

}  // namespace shoal
