#include <gtest/gtest.h>

#include "cli/bench_sample.h"

namespace shoal::cli {
namespace {

// Needs a quiet machine. Compares the median of several runs, each with its own bound.
TEST(BenchBoundTest, NoSamplerPassesItsBound) {
  constexpr double kNoise = 1.05;
  for (const char* kind : {"serial", "parallel-cpu", "parallel-gpu"}) {
    for (const int groups : {1, 2}) {
      for (const bool asynchronous : {false, true}) {
        BenchOptions options{.config = {}, .runs = 9, .seconds = 0.4};
        options.config.env_id = "CartPole-v1";
        options.config.sampler.envs = 16;
        options.config.sampler.groups = groups;
        options.config.asynchronous = asynchronous;
        options.config.model.shared_trunk = true;
        set(options.config, "sampler.kind", kind);
        const auto result = bench_sample(options);
        EXPECT_LE(result.share(), kNoise)
            << kind << ", groups " << groups << ", asynchronous " << asynchronous;
      }
    }
  }
}

}  // namespace
}  // namespace shoal::cli
