#include "shoal/ipc/run_ranks.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <fstream>
#include <new>
#include <stdexcept>
#include <string>
#include <thread>

#include "shoal/core/error.h"
#include "shoal/ipc/rank_exchange.h"
#include "shoal/ipc/worker_group.h"
#include "tests/support/message_of.h"

namespace shoal {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

// Counters in shared memory.
struct SharedNumbers {
  std::atomic<int> here{0}, stopped_by{0};
  std::atomic<pid_t> worker{0};
};

class RankGroupTest : public ::testing::Test {
 protected:
  RankGroupTest()
      : board_(*new (mmap(nullptr, sizeof(SharedNumbers), PROT_READ | PROT_WRITE,
                          MAP_SHARED | MAP_ANONYMOUS, -1, 0)) SharedNumbers) {}
  ~RankGroupTest() override {
    munmap(&board_, sizeof(SharedNumbers));
    EXPECT_LT(Clock::now() - begin_, 3s) << "the others ended too late";
    EXPECT_EQ(waitpid(-1, nullptr, WNOHANG), -1) << "a child is left";
  }
  // A zombie that its new parent has not reaped does not run.
  static bool runs(pid_t pid) {
    std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
    std::string number, name, state;
    return file >> number >> name >> state && state != "Z";
  }
  [[noreturn]] static void never_end() {
    for (;;) std::this_thread::sleep_for(1h);
  }

  SharedNumbers& board_;
  Clock::time_point begin_ = Clock::now();
};

TEST_F(RankGroupTest, GivesWhatRankZeroReturns) {
  const int result = run_ranks(3, [&](int rank) {
    ++board_.here;
    return 40 + rank;
  });
  EXPECT_EQ(result, 40);
  EXPECT_EQ(board_.here, 3);
}

TEST_F(RankGroupTest, AnExceptionEndsAllWithItsText) {
  const auto text = message_of<RankError>([] {
    run_ranks(3, [](int rank) -> int {
      if (rank == 2) throw std::runtime_error("the disk is full");
      never_end();
    });
  });
  EXPECT_EQ(text, "rank 2: the disk is full");
}

TEST_F(RankGroupTest, AMistakeStaysOne) {
  const auto text = message_of<Error>([] {
    run_ranks(2, [](int rank) -> int {
      if (rank == 0) throw Error("steps: found {}", 0);
      never_end();
    });
  });
  EXPECT_EQ(text, "steps: found 0");
}

TEST_F(RankGroupTest, WhoIsKilledIsNamedAndTakesAllWithIt) {
  const auto text = message_of<RankError>([&] {
    run_ranks(2, [&](int rank) -> int {
      if (rank == 1) {
        while (board_.worker == 0) std::this_thread::yield();
        raise(SIGKILL);
      }
      // Its worker must not outlive it.
      const WorkerGroup workers(1, [&](int, WorkerStatus) {
        board_.worker = getpid();
        never_end();
      });
      never_end();
    });
  });
  EXPECT_NE(text.find("rank 1 (pid "), std::string::npos) << text;
  EXPECT_NE(text.find("was killed by SIGKILL"), std::string::npos) << text;
  while (runs(board_.worker)) std::this_thread::yield();  // until the test times out
}

TEST_F(RankGroupTest, WhoGoesOnAloneIsNamedByThoseThatWait) {
  RankExchangeOptions options{.ranks = 2, .spin = 0, .timeout = 300ms};
  Arena::Plan plan;
  const auto words = plan.add_bytes(RankExchange::bytes(options));
  const Arena arena(plan);
  const RankExchange exchange(arena.data(words), options);
  const auto text = message_of<RankError>([&] {
    run_ranks(2, [&](int rank) -> int {
      if (rank == 1) raise(SIGSTOP);
      exchange.of(rank).barrier();
      return 0;
    });
  });
  EXPECT_NE(text.find("rank 0 waits for rank 1"), std::string::npos) << text;
}

TEST_F(RankGroupTest, SignalsGoToRankZero) {
  const pid_t parent = getpid();
  const int result = run_ranks(2, [&](int rank) -> int {
    if (rank == 0) {
      static std::atomic<int> caught{0};
      signal(SIGTERM, [](int number) { caught = number; });
      ++board_.here;
      while (caught == 0) std::this_thread::yield();
      board_.stopped_by = caught.load();
      return 7;
    }
    while (board_.here == 0) std::this_thread::yield();
    raise(SIGTERM);  // the others ignore it
    kill(parent, SIGTERM);
    while (board_.stopped_by == 0) std::this_thread::yield();
    return 0;
  });
  EXPECT_EQ(result, 7);
  EXPECT_EQ(board_.stopped_by, SIGTERM);
}

TEST_F(RankGroupTest, WhoIsEndedByASignalEndsAll) {
  const pid_t parent = getpid();
  const int result = run_ranks(2, [&](int rank) -> int {
    if (rank == 0) {
      signal(SIGTERM, [](int number) { _exit(128 + number); });
      kill(parent, SIGTERM);
    }
    never_end();
  });
  EXPECT_EQ(result, 128 + SIGTERM);
}

TEST_F(RankGroupTest, ASignalBeforeRankZeroHasAHandlerEndsAll) {
  const pid_t parent = getpid();
  const int result = run_ranks(2, [&](int rank) -> int {
    if (rank == 0) kill(parent, SIGTERM);
    never_end();
  });
  EXPECT_EQ(result, 128 + SIGTERM);
}

// It was sent while the rank was being forked, and is pending when that sets its handlers.
TEST_F(RankGroupTest, ASignalThatIsPendingInRankZeroIsNotLost) {
  static bool armed = false;
  pthread_atfork(nullptr, nullptr, [] {
    if (armed) kill(getpid(), SIGTERM);  // blocked
  });
  armed = true;
  EXPECT_THROW(run_ranks(1, [](int) { return 0; }), RankError);
  armed = false;
}

TEST_F(RankGroupTest, ItsEndIsSeenThoughSigchldIsIgnored) {
  const auto before = signal(SIGCHLD, SIG_IGN);
  EXPECT_EQ(run_ranks(2, [](int rank) { return 7 - rank; }), 7);
  signal(SIGCHLD, before);
}

// Ranks are forked from the main thread, as workers are.
TEST_F(RankGroupTest, OtherThreadsMayNotFork) {
  std::string text;
  std::thread([&] {
    text = message_of<Error>([] { run_ranks(2, [](int) { return 0; }); });
  }).join();
  EXPECT_NE(text.find("main thread"), std::string::npos) << text;
}

}  // namespace
}  // namespace shoal
