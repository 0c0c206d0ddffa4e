#include "samplers/partition.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace shoal {
namespace {

TEST(PartitionTest, EveryEnvironmentHasOneWorkerAndWorkersAreEven) {
  for (const int groups : {1, 2}) {
    for (std::int64_t envs = groups; envs <= 20; ++envs) {
      for (int workers = 1; workers <= envs; ++workers) {
        std::vector<std::int64_t> load(static_cast<std::size_t>(workers), 0);
        std::int64_t next = 0;
        for (int g = 0; g < groups; ++g) {
          std::vector<std::int64_t> in_group;
          for (int w = 0; w < workers; ++w) {
            const auto range = worker_range(envs, groups, g, workers, w);
            ASSERT_EQ(range.first, next) << "contiguous, in order";
            next = range.last;
            load[static_cast<std::size_t>(w)] += range.size();
            in_group.push_back(range.size());
          }
          ASSERT_EQ(next, group_range(envs, groups, g).last);
          const auto [least, most] = std::ranges::minmax(in_group);
          EXPECT_LE(most - least, 1);
        }
        EXPECT_EQ(next, envs);
        const auto [least, most] = std::ranges::minmax(load);
        EXPECT_LE(most - least, 1)
            << envs << " environments, " << workers << " workers, " << groups << " groups";
        EXPECT_GE(least, 1) << "nobody is idle";
      }
    }
  }
}

TEST(PartitionTest, TwoGroupsDifferByOneAtMost) {
  EXPECT_EQ(group_range(9, 2, 0).size(), 4);
  EXPECT_EQ(group_range(9, 2, 1).size(), 5);
  EXPECT_EQ(group_range(9, 1, 0).size(), 9);
}

}  // namespace
}  // namespace shoal
