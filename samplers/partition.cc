#include "samplers/partition.h"

#include <algorithm>

#include "src/core/divide_up.h"

namespace shoal {

int even_workers(std::int64_t envs, std::int64_t workers) {
  const auto share = divide_up(envs, std::clamp<std::int64_t>(workers, 1, envs));
  return static_cast<int>(divide_up(envs, share));
}

Range group_range(std::int64_t envs, int groups, int group) {
  return {envs * group / groups, envs * (group + 1) / groups};
}

Range worker_range(std::int64_t envs, int groups, int group, int workers, int worker) {
  std::int64_t turn = 0;  // the first worker that gets one more
  for (int g = 0; g < group; ++g) turn += group_range(envs, groups, g).size() % workers;
  const auto whole = group_range(envs, groups, group);
  const auto each = whole.size() / workers, left = whole.size() % workers;
  auto share = [&](int w) {
    const auto place = (w - turn % workers + workers) % workers;
    return each + (place < left ? 1 : 0);
  };
  auto first = whole.first;
  for (int w = 0; w < worker; ++w) first += share(w);
  return {first, first + share(worker)};
}

std::int64_t indivisible_share(std::int64_t envs, int groups, int workers, std::int64_t multiple) {
  for (int g = 0; g < groups; ++g)
    for (int w = 0; w < workers; ++w) {
      const auto n = worker_range(envs, groups, g, workers, w).size();
      if (n % multiple != 0) return n;
    }
  return 0;
}

}  // namespace shoal
