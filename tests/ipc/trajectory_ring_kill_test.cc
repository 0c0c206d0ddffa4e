#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <csignal>
#include <cstring>
#include <vector>

#include "shoal/core/arena.h"
#include "shoal/core/rng.h"
#include "shoal/ipc/trajectory_ring.h"
#include "src/core/cpu_features.h"

// Writers that are repeatedly killed at random moments and replaced.
namespace shoal::ring_kill_test {
namespace {

constexpr int kWriters = 3, kSlots = 4;
constexpr std::chrono::seconds kLong{20};  // a wait this long has lost a wake-up

// A rollout of one process of a writer, numbered from 0.
struct Content {
  long life, rollout;
  std::array<long, 32> copies;
};

void dawdle(Rng& rng, int longest) {
  for (auto i = rng.integer(0, longest); i > 0; --i) pause_core();
}

class RingKillTest : public ::testing::TestWithParam<bool> {
 protected:
  RingKillTest()
      : words_(plan_.add_bytes(TrajectoryRing::bytes(kSlots))),
        contents_(plan_.add_bytes(kSlots * sizeof(Content))),
        published_(plan_.add_bytes(kWriters * sizeof(std::atomic<long>))),
        arena_(plan_),
        ring_(arena_.data(words_), {.slots = kSlots, .drain = GetParam()}) {
    for (int w = 0; w < kWriters; ++w) start(w);
  }
  ~RingKillTest() override {
    for (int w = 0; w < kWriters; ++w) end(w);
  }

  Content& content(int slot) { return reinterpret_cast<Content*>(arena_.data(contents_))[slot]; }
  // Rollouts that a writer's current process knows to be published.
  std::atomic<long>& published(int writer) {
    return reinterpret_cast<std::atomic<long>*>(arena_.data(published_))[writer];
  }

  void start(int writer) {
    auto& life = lives_[static_cast<std::size_t>(writer)];
    life = static_cast<long>(seen_.size());
    seen_.push_back(0);
    published(writer) = 0;
    auto& pid = pids_[static_cast<std::size_t>(writer)];
    pid = fork();
    if (pid == 0) write(writer, life);
  }

  // Some kill themselves in the middle of a rollout; the others are killed at random moments.
  [[noreturn]] void write(int writer, long life) noexcept {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    Rng rng(static_cast<std::uint64_t>(life));
    const long last = life % 4 == 0 ? rng.integer(0, 4) : -1;
    for (long rollout = 0;;) {
      const auto slot = ring_.acquire(writer, std::chrono::milliseconds(100));
      if (!slot) continue;
      auto& to = content(*slot);
      to.life = life;
      to.rollout = rollout;
      for (auto& x : to.copies) {
        x = rollout;
        dawdle(rng, 200);
        if (rollout == last && &x == &to.copies[16]) raise(SIGKILL);
      }
      ring_.publish(*slot, {});
      published(writer).store(++rollout);
      dawdle(rng, 500);
    }
  }

  void end(int writer) {
    const auto w = static_cast<std::size_t>(writer);
    if (pids_[w] <= 0) return;
    kill(pids_[w], SIGKILL);
    waitpid(pids_[w], nullptr, 0);
    pids_[w] = 0;
    ring_.reclaim(writer);
    ends_.push_back({lives_[w], published(writer)});
  }

  void replace(int writer) {
    end(writer);
    start(writer);
  }
  // If all have killed themselves, no rollout comes until they are replaced.
  void replace_the_dead() {
    for (int w = 0; w < kWriters; ++w) {
      siginfo_t ended{};
      const auto pid = static_cast<id_t>(pids_[static_cast<std::size_t>(w)]);
      if (waitid(P_PID, pid, &ended, WEXITED | WNOHANG | WNOWAIT) == 0 && ended.si_pid != 0)
        replace(w);
    }
  }

  void read() {
    const auto deadline = std::chrono::steady_clock::now() + kLong;
    auto rollout = ring_.take(0, std::chrono::milliseconds(10));
    while (!rollout && std::chrono::steady_clock::now() < deadline) {
      replace_the_dead();
      rollout = ring_.take(0, std::chrono::milliseconds(10));
    }
    ASSERT_TRUE(rollout) << "nothing came";
    const auto& found = content(rollout->slot);
    ASSERT_EQ(found.rollout, seen_.at(static_cast<std::size_t>(found.life))++)
        << "lost or doubled, of life " << found.life;
    for (const long x : found.copies) ASSERT_EQ(x, found.rollout) << "half a rollout";
    ring_.release(rollout->slot);
  }

  Arena::Plan plan_;
  Arena::Field words_, contents_, published_;
  Arena arena_;
  TrajectoryRing ring_;
  std::array<pid_t, kWriters> pids_{};
  std::array<long, kWriters> lives_{};
  std::vector<long> seen_;  // rollouts, per process
  struct End {
    long life, published;
  };
  std::vector<End> ends_;
};

TEST_P(RingKillTest, NoRolloutIsLostOrDoubled) {
  Rng rng(7);
  for (int round = 0; round < 1000; ++round) {
    SCOPED_TRACE(round);
    for (auto i = rng.integer(0, 8); i > 0; --i) {
      read();
      if (HasFatalFailure()) return;
    }
    dawdle(rng, 20'000);  // sometimes until the ring is full
    replace(static_cast<int>(rng.integer(0, kWriters)));
  }
  for (int w = 0; w < kWriters; ++w) end(w);
  while (const auto rollout = ring_.take(0, std::chrono::milliseconds(0))) {
    ++seen_.at(static_cast<std::size_t>(content(rollout->slot).life));
    ring_.release(rollout->slot);
  }
  for (const auto& [life, published] : ends_) {
    const auto seen = seen_.at(static_cast<std::size_t>(life));
    // It may have died before counting the last one.
    EXPECT_TRUE(seen == published || seen == published + 1)
        << "life " << life << " published " << published << ", " << seen << " were read";
  }
  for (int i = 0; i < kSlots; ++i)
    EXPECT_TRUE(ring_.acquire(0, std::chrono::milliseconds(0))) << "slot " << i << " is lost";
  EXPECT_GT(ring_.counts().reclaimed, 0) << "none died in the middle";
}

INSTANTIATE_TEST_SUITE_P(Rules, RingKillTest, ::testing::Bool(),
                         [](const auto& made) { return made.param ? "Drain" : "AnySlot"; });

struct Ring {
  Ring()
      : words(plan.add_bytes(TrajectoryRing::bytes(2))),
        arena(plan),
        ring(arena.data(words), {.slots = 2, .drain = true}) {}
  Arena::Plan plan;
  Arena::Field words;
  Arena arena;
  TrajectoryRing ring;
};

constexpr std::chrono::milliseconds kNow{0};
constexpr std::int64_t kTick = 5;

void write_one(TrajectoryRing& ring, int writer) {
  if (const auto slot = ring.acquire(writer, kNow)) ring.publish(*slot, {.first_tick = kTick});
}

// Writer 0 is dead: all rollouts are complete, and the next writer can continue. Returns the number
// of rollouts.
int read_what_is_left(TrajectoryRing ring) {
  ring.reclaim(0);
  int rollouts = 0;
  for (auto rollout = ring.take(0, kNow); rollout; rollout = ring.take(0, kNow)) {
    EXPECT_EQ(rollout->tag.first_tick, kTick) << "half a rollout";
    ring.release(rollout->slot);
    ++rollouts;
  }
  for (int i = 0; i < 2; ++i) EXPECT_TRUE(ring.acquire(0, kNow)) << "slot " << i << " is lost";
  return rollouts;
}

// Single-steps a writer: its writes to shared memory so far are those of a writer killed at that
// instruction.
TEST(RingKillStepTest, AWriterMayDieAfterAnyInstruction) {
  for (const bool full : {false, true}) {
    Ring writers, readers;
    write_one(writers.ring, 1);  // also resolves lazily bound functions
    if (full) write_one(writers.ring, 1);
    const pid_t pid = fork();
    if (pid == 0) {
      ptrace(PTRACE_TRACEME, 0, nullptr, nullptr);
      raise(SIGSTOP);
      write_one(writers.ring, 0);
      _exit(0);
    }
    int status = 0, steps = 0, least = 2, most = 0;
    waitpid(pid, &status, 0);
    for (; WIFSTOPPED(status) && !HasFailure() && steps < 1'000'000; ++steps) {
      std::memcpy(readers.arena.data(readers.words), writers.arena.data(writers.words),
                  TrajectoryRing::bytes(2));
      const int rollouts = read_what_is_left(readers.ring);
      least = std::min(least, rollouts);
      most = std::max(most, rollouts);
      ptrace(PTRACE_SINGLESTEP, pid, nullptr, nullptr);
      waitpid(pid, &status, 0);
    }
    EXPECT_TRUE(WIFEXITED(status)) << "after " << steps << " instructions, full: " << full;
    EXPECT_GT(steps, 100);
    EXPECT_EQ(least, full ? 2 : 1);
    EXPECT_EQ(most, 2);
    if (WIFEXITED(status)) continue;
    kill(pid, SIGKILL);
    waitpid(pid, &status, 0);
  }
}

}  // namespace
}  // namespace shoal::ring_kill_test
