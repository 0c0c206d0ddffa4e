#include "shoal/ipc/step_barrier.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "shoal/core/error.h"
#include "shoal/ipc/worker_group.h"

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
class StepBarrierTest : public testing::TestWithParam<Case> {};

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
                         testing::Values(Case{1, 0, 20'000}, Case{1, 50, 20'000},
                                         Case{2, 0, 10'000}, Case{2, 2000, 1000}, Case{4, 3, 5000},
                                         Case{16, 0, 1000}),
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

// The cores on which a process may run, as the kernel writes them.
std::string allowed_cores_of(pid_t process) {
  std::ifstream status(fmt::format("/proc/{}/status", process));
  const std::string key = "Cpus_allowed_list:\t";
  for (std::string line; std::getline(status, line);)
    if (line.starts_with(key)) return line.substr(key.size());
  return "";
}

TEST(StepBarrierTest, WorkersOfLongStepsSleepOnDifferentCores) {
  const auto cores = allowed_cores();
  if (cores.size() < 2) GTEST_SKIP() << "there is one core";
  const Memory memory(2);
  StepBarrier barrier(memory.data(), 2, 0);
  const WorkerGroup group(2, [&](int w, WorkerStatus) {
    use_cores({cores[0]});  // both begin on the same core
    use_cores(cores);
    for (barrier.arrive(w); barrier.wait_release(w, seconds(60)); barrier.arrive(w)) {
      if (allowed_cores() != cores) _exit(1);
      const auto start = std::chrono::steady_clock::now();
      while (std::chrono::steady_clock::now() - start < milliseconds(1)) {
      }
    }
    _exit(2);
  });
  std::set<std::string> where;
  // Two that fall asleep at once may choose the same core, and one of them moves the next time.
  for (int step = 0; step < 1000 && where.size() < 2; ++step) {
    for (int w = 0; w < 2; ++w) ASSERT_TRUE(barrier.wait(w, seconds(60)));
    std::this_thread::sleep_for(milliseconds(1));  // they fall asleep
    where.clear();
    for (const auto pid : group.pids())
      if (const auto core = allowed_cores_of(pid); core.find_first_of(",-") == std::string::npos)
        where.insert(core);
    barrier.release();
  }
  EXPECT_EQ(where.size(), 2U);
}

}  // namespace
}  // namespace shoal
