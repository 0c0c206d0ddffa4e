#include "shoal/ipc/step_barrier.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/types.h>

#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "shoal/core/error.h"
#include "shoal/ipc/worker_group.h"
#include "src/ipc/core_binding.h"

namespace shoal {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

struct Memory {
  explicit Memory(int workers) : field(plan.add_bytes(StepBarrier::bytes(workers))), arena(plan) {}
  std::byte* data() const { return arena.data(field); }

  Arena::Plan plan;
  Arena::Field field;
  Arena arena;
};

struct Case {
  int workers, spin, steps;
};

// Threads stand in for processes, so that ThreadSanitizer can watch the protocol: `input` and
// `sums` are plain memory that only the barrier protects.
class StepBarrierTest : public ::testing::TestWithParam<Case> {};

TEST_P(StepBarrierTest, EveryWorkerSeesEveryStepInOrder) {
  const auto [workers, spin, steps] = GetParam();
  const Memory memory(workers);
  StepBarrier barrier(memory.data(), workers, spin);
  std::vector<long> sums(static_cast<std::size_t>(workers), -1);
  long input = 0;
  std::vector<std::jthread> threads;
  for (int w = 0; w < workers; ++w) {
    threads.emplace_back([&, w, steps = steps] {
      auto& sum = sums[static_cast<std::size_t>(w)];
      sum = 0;  // start-up
      barrier.arrive(w);
      for (int t = 0; t < steps; ++t) {
        if (!barrier.wait_release(w, seconds(20))) return;
        sum += input;
        barrier.arrive(w);
      }
    });
  }
  for (long t = 0; t <= steps; ++t) {
    for (int w = 0; w < workers; ++w) {
      ASSERT_TRUE(barrier.wait(w, seconds(20))) << "a wake-up was lost at step " << t;
      ASSERT_EQ(sums[static_cast<std::size_t>(w)], t * (t + 1) / 2);
    }
    input = t + 1;
    if (t < steps) barrier.release();
  }
}

INSTANTIATE_TEST_SUITE_P(Sizes, StepBarrierTest,
                         ::testing::Values(Case{1, 0, 20'000}, Case{1, 50, 20'000},
                                           Case{2, 0, 10'000}, Case{2, 2000, 1000},
                                           Case{4, 3, 5000}, Case{16, 0, 1000}),
                         [](const auto& made) {
                           return "Workers" + std::to_string(made.param.workers) + "Spin" +
                                  std::to_string(made.param.spin);
                         });

TEST(StepBarrierTest, TheServersWaitEndsWhenAWorkerIsMissing) {
  const Memory memory(2);
  StepBarrier barrier(memory.data(), 2, 10);
  barrier.arrive(0);
  EXPECT_TRUE(barrier.wait(0, milliseconds(0)));
  const auto start = std::chrono::steady_clock::now();
  EXPECT_FALSE(barrier.wait(1, milliseconds(30)));
  EXPECT_GE(std::chrono::steady_clock::now() - start, milliseconds(30));
  barrier.arrive(1);
  EXPECT_TRUE(barrier.wait(1, milliseconds(0))) << "a timeout must not lose an arrival";
}

TEST(StepBarrierTest, AWorkersWaitEndsWithoutARelease) {
  const Memory memory(1);
  StepBarrier barrier(memory.data(), 1, 10);
  barrier.arrive(0);
  const auto start = std::chrono::steady_clock::now();
  EXPECT_FALSE(barrier.wait_release(0, milliseconds(30)));
  EXPECT_GE(std::chrono::steady_clock::now() - start, milliseconds(30));
  barrier.release();
  EXPECT_TRUE(barrier.wait_release(0, milliseconds(0))) << "a timeout must not lose a release";
  EXPECT_FALSE(barrier.wait(0, milliseconds(0))) << "released and not arrived";
}

TEST(StepBarrierTest, TheLongestTimeoutDoesNotOverflow) {
  const Memory memory(1);
  StepBarrier barrier(memory.data(), 1, 0);
  std::jthread worker([&] { barrier.arrive(0); });
  EXPECT_TRUE(barrier.wait(0, milliseconds::max()));
}

TEST(StepBarrierTest, NeedsAWorker) {
  const Memory memory(1);
  EXPECT_THROW(StepBarrier(memory.data(), 0, 0), Error);
}

TEST(StepBarrierTest, NobodySpinsWhenProcessesOutnumberTheCores) {
  const auto cores = static_cast<int>(allowed_cores().size());
  EXPECT_EQ(default_spin(cores + 1), 0);
  EXPECT_GT(default_spin(cores), 0);
}

TEST(CoreBindingTest, GivesWayToOthersAndGivesTheCoresBack) {
  const auto cores = allowed_cores();
  if (cores.size() < 2) GTEST_SKIP() << "there is one core";
  for (const int taken : {cores[0], cores[1]}) {
    const CoreBinding binding([&](int core) { return core == taken ? 1 : 0; });
    EXPECT_NE(binding.core(), taken);
    EXPECT_EQ(allowed_cores(), std::vector{binding.core()});
  }
  EXPECT_EQ(allowed_cores(), cores);
  {
    const CoreBinding binding([&](int core) { return core == cores[0] ? 2 : 3; });
    EXPECT_EQ(binding.core(), cores[0]) << "all are taken: the one with the fewest";
    use_cores({cores[1]});
  }
  EXPECT_EQ(allowed_cores(), std::vector{cores[1]}) << "somebody else has bound it";
  use_cores(cores);
}

// The cores on which a process may run, as the kernel writes them.
std::string allowed_cores_of(pid_t process) {
  std::ifstream status(fmt::format("/proc/{}/status", process));
  const std::string key = "Cpus_allowed_list:\t";
  for (std::string line; std::getline(status, line);)
    if (line.starts_with(key)) return line.substr(key.size());
  return "";
}
bool is_one_core(const std::string& cores) {
  return cores.find_first_of(",-") == std::string::npos;
}

TEST(StepBarrierTest, WorkersOfLongStepsSleepOnDifferentCores) {
  const auto cores = allowed_cores();
  if (cores.size() < 2) GTEST_SKIP() << "there is one core";
  const Memory memory(2);
  StepBarrier barrier(memory.data(), 2, 0);
  WorkerGroup group(2, [&](int w, WorkerStatus) {
    use_cores({cores[0]});  // both begin on the same core
    use_cores(cores);
    for (barrier.arrive(w); barrier.wait_release(w, seconds(60)); barrier.arrive(w)) {
      if (allowed_cores() != cores) throw Error("the cores were not given back");
      const auto start = std::chrono::steady_clock::now();
      while (std::chrono::steady_clock::now() - start < milliseconds(1)) {
      }
    }
    throw Error("the test has ended");
  });
  constexpr int kBefore = 2, kSteps = 40;
  int apart = 0;
  for (int step = 0; step < kBefore + kSteps; ++step) {
    for (int w = 0; w < 2; ++w)
      while (!barrier.wait(w, milliseconds(100))) group.check();
    std::string first, second;
    do {
      group.check();
      first = allowed_cores_of(group.pids()[0]);
      second = allowed_cores_of(group.pids()[1]);
    } while (step >= kBefore && !(is_one_core(first) && is_one_core(second)));
    if (first != second) ++apart;
    barrier.release();
  }
  // The second may choose before the first, which was moved by Linux meanwhile.
  EXPECT_GT(apart, kSteps * 3 / 4);
}

}  // namespace
}  // namespace shoal
