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

// The environments of a group that worker `worker` of `workers` steps. If a group does not divide
// evenly, some workers get one more. The next group starts with the worker after these, so that
// over all groups the numbers of environments differ by at most one.
Range worker_range(std::int64_t envs, int groups, int group, int workers, int worker);

// The smallest number of workers with the same largest share of the environments. workers: cut to
// 1 to envs.
int even_workers(std::int64_t envs, std::int64_t workers);

// The size of the first worker_range() that is not divisible by `multiple`; 0: all are.
std::int64_t indivisible_share(std::int64_t envs, int groups, int workers, std::int64_t multiple);

}  // namespace shoal
