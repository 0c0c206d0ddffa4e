#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "shoal/samplers/async_sampler.h"
#include "tests/support/toy_envs.h"

// Shared by the tests of dead, restarted and hanging workers.

namespace shoal {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

// Running child processes of `pid`.
inline std::vector<pid_t> children(pid_t pid) {
  std::vector<pid_t> out;
  std::ifstream file(fmt::format("/proc/{0}/task/{0}/children", pid));
  for (pid_t child = 0; file >> child;) out.push_back(child);
  return out;
}

inline std::size_t shared_memory_files() {
  const auto files = std::filesystem::directory_iterator("/dev/shm");
  return static_cast<std::size_t>(std::distance(begin(files), end(files)));
}

// Environment 5 fails in this way, in its 12th step.
inline EnvFactory unlucky(testing::Mishap mishap) {
  return [mishap](const EnvContext& c) {
    return std::make_unique<testing::Unlucky>(c, mishap, 5, 12);
  };
}

inline std::unique_ptr<Sampler> make_either(bool asynchronous, const EnvFactory& make_env,
                                            Agent& agent, Agent& actor,
                                            const SamplerOptions& options,
                                            const NamedTensors& saved = {}) {
  if (asynchronous) return make_async_sampler(make_env, agent, actor, options, {}, saved);
  return make_sampler(make_env, agent, options, saved);
}

// How workers are given their steps.
struct Pace {
  std::string name;
  SamplerKind kind;
  int groups;
  std::int64_t batch;
  bool asynchronous;
  double preempt_share = 1;

  SamplerOptions options(std::int64_t horizon, std::int64_t envs) const {
    return {.kind = kind,
            .horizon = horizon,
            .envs = envs,
            .workers = 2,
            .groups = groups,
            .dynamic_batch = batch,
            .preempt_share = preempt_share};
  }
};

// Each test ends with neither processes nor shared memory left.
class LeavesNothing : public ::testing::Test {
 protected:
  std::size_t files_before_ = shared_memory_files();
  void TearDown() override {
    EXPECT_TRUE(children(getpid()).empty());
    EXPECT_EQ(shared_memory_files(), files_before_);
  }
};

}  // namespace shoal
