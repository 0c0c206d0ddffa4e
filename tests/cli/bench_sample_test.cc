#include "cli/bench_sample.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "cli/acting_alone.h"

namespace shoal::cli {
namespace {

TEST(BenchSampleTest, TheBoundIsOfTurnsOrOfTheSlowerOne) {
  EXPECT_DOUBLE_EQ(sampling_bound(300, 600, false), 200);
  EXPECT_DOUBLE_EQ(sampling_bound(300, 600, true), 300);
  using enum SamplerKind;
  EXPECT_FALSE(acting_overlaps_stepping({.kind = kParallelGpu}));
  EXPECT_TRUE(acting_overlaps_stepping({.kind = kParallelGpu, .groups = 2}));
  EXPECT_TRUE(acting_overlaps_stepping({.kind = kParallelGpu, .dynamic_batch = 8}));
  for (const auto kind : {kSerial, kParallelCpu})
    EXPECT_FALSE(acting_overlaps_stepping({.kind = kind, .groups = 2}));
}

// The number of acting processes is that of the sampler, and one process acts for each environment.
TEST(BenchSampleTest, ActingAloneIsSharedOutAsInTheSampler) {
  using enum SamplerKind;
  for (const auto kind : {kSerial, kParallelCpu, kParallelGpu}) {
    for (const int groups : {1, 2}) {
      const SamplerOptions sampler{.kind = kind, .envs = 14, .workers = 3, .groups = groups};
      const int processes = acting_processes(sampler);
      EXPECT_EQ(processes, kind == kParallelCpu ? 3 : 1);
      std::vector<int> acted(14, 0);
      for (int process = 0; process < processes; ++process) {
        const auto batches = acting_batches(sampler, false, process);
        EXPECT_EQ(std::ssize(batches), groups);
        for (const auto& batch : batches)
          for (auto b = batch.first; b < batch.last; ++b) ++acted[static_cast<std::size_t>(b)];
      }
      EXPECT_EQ(std::ranges::count(acted, 1), 14);
    }
  }
}

TEST(BenchSampleTest, AnAsynchronousWorkersRolloutIsItsOwn) {
  const SamplerOptions sampler{
      .kind = SamplerKind::kParallelCpu, .envs = 12, .workers = 3, .groups = 2};
  for (int process = 0; process < 3; ++process) {
    const auto batches = acting_batches(sampler, true, process);
    ASSERT_EQ(batches.size(), 2);
    EXPECT_EQ(batches[0].first, 0);
    EXPECT_EQ(batches[1].first, 2);
    EXPECT_EQ(batches[1].last, 4);
  }
}

}  // namespace
}  // namespace shoal::cli
