#include "shoal/core/stop.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <span>
#include <thread>
#include <vector>

#include "shoal/core/arena.h"
#include "shoal/ipc/rank_exchange.h"

namespace shoal {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

class StopTest : public ::testing::Test {
 protected:
  void SetUp() override { request_stop(0); }
  void TearDown() override {
    request_stop(0);
    set_stop_grace(kStopGrace);
  }
};
using StopDeathTest = StopTest;

// A call that never returns, in an environment or another library.
[[noreturn]] void hang() {
  for (;;) pause();
}

TEST_F(StopTest, TheFirstRequestCounts) {
  EXPECT_EQ(stop_requested(), 0);
  request_stop(SIGTERM);
  request_stop(SIGINT);
  EXPECT_EQ(stop_requested(), SIGTERM);
  request_stop(0);
  EXPECT_EQ(stop_requested(), 0);
}

TEST_F(StopTest, WaitsGoOnUntilTheGraceIsOver) {
  EXPECT_NO_THROW(throw_if_interrupted());
  set_stop_grace(1h);
  request_stop(SIGTERM);
  EXPECT_NO_THROW(throw_if_interrupted());
  set_stop_grace(0ms);
  {
    const StopDeferred saving;
    EXPECT_NO_THROW(throw_if_interrupted());
  }
  try {
    throw_if_interrupted();
    ADD_FAILURE() << "it goes on";
  } catch (const Interrupted& e) {
    EXPECT_EQ(e.signal, SIGTERM);
    EXPECT_NE(std::string(e.what()).find("SIGTERM"), std::string::npos) << e.what();
  }
}

TEST_F(StopTest, TheGraceBeginsAnewWithAnotherKindOfWait) {
  set_stop_grace(50ms);
  request_stop(SIGTERM);
  std::this_thread::sleep_for(60ms);
  EXPECT_THROW(throw_if_interrupted(), Interrupted);
  set_stop_grace(1h);
  renew_stop_grace();
  EXPECT_NO_THROW(throw_if_interrupted());
}

TEST_F(StopTest, ARankThatWaitsForAnotherOneIsInterrupted) {
  constexpr std::size_t kLine = 64;  // of the exchange's head, and of each rank
  const RankExchangeOptions options{.ranks = 2, .spin = 0, .timeout = 1h};
  Arena::Plan plan;
  const auto words = plan.add_bytes(RankExchange::bytes(options));
  const Arena arena(plan);
  const RankExchange exchange(arena.data(words), options);
  const std::span slot_of_1(arena.data(words) + kLine * 2, kLine);
  const std::vector<std::byte> before(slot_of_1.begin(), slot_of_1.end());
  set_stop_grace(10ms);
  request_stop(SIGINT);
  EXPECT_THROW(exchange.of(0).barrier(), Interrupted);
  // Rank 0 no longer counts as a waiter for rank 1.
  EXPECT_TRUE(std::ranges::equal(slot_of_1, before));
}

TEST_F(StopDeathTest, ACallThatDoesNotComeBackEndsTheProcess) {
  EXPECT_EXIT(
      {
        set_stop_grace(200ms);
        const StopWatch watch;
        const BlockingCall call(BlockingCall::kEnvironment);
        request_stop(SIGTERM);
        hang();
      },
      ::testing::ExitedWithCode(128 + SIGTERM),
      "has not returned; ending without it, the last checkpoint is kept");
}

TEST_F(StopDeathTest, CallsOfTwoThreadsDoToo) {
  EXPECT_EXIT(
      {
        set_stop_grace(200ms);
        const StopWatch watch;
        const auto hang_in_call = [] {
          const BlockingCall call(BlockingCall::kEnvironment);
          hang();
        };
        std::thread(hang_in_call).detach();
        std::thread(hang_in_call).detach();
        request_stop(SIGTERM);
        std::this_thread::sleep_for(20s);
        _exit(9);
      },
      ::testing::ExitedWithCode(128 + SIGTERM), "has not returned");
}

TEST_F(StopDeathTest, ACallHasItsLimitWithoutARequest) {
  const auto call_for = [](std::chrono::milliseconds each, std::chrono::milliseconds limit) {
    const StopWatch watch;
    const CallLimits limits;
    for (const auto end = Clock::now() + 4s; Clock::now() < end;) {
      const BlockingCall call(BlockingCall::kEnvironment, limit);
      std::this_thread::sleep_for(each);
    }
    _exit(7);
  };
  EXPECT_EXIT(call_for(1h, 500ms), ::testing::ExitedWithCode(1), "raise sampler.step_limit");
  EXPECT_EXIT(call_for(10ms, 500ms), ::testing::ExitedWithCode(7), "");
  EXPECT_EXIT(call_for(10s, 0ms), ::testing::ExitedWithCode(7), "");
}

TEST_F(StopDeathTest, ACallThatHasRunForLongHasTheWholeGracePeriod) {
  EXPECT_EXIT(
      {
        set_stop_grace(1500ms);
        const StopWatch watch;
        const CallLimits limits;
        {
          const BlockingCall call(BlockingCall::kEnvironment, 1h);
          std::this_thread::sleep_for(3500ms);
          request_stop(SIGTERM);
          std::this_thread::sleep_for(500ms);
        }
        _exit(7);
      },
      ::testing::ExitedWithCode(7), "");
}

TEST_F(StopDeathTest, CallsThatComeBackDoNot) {
  EXPECT_EXIT(
      {
        set_stop_grace(200ms);
        const StopWatch watch;
        request_stop(SIGTERM);
        for (const auto end = Clock::now() + 600ms; Clock::now() < end;) {
          const BlockingCall call(BlockingCall::kEnvironment);
          std::this_thread::sleep_for(1ms);
        }
        _exit(7);
      },
      ::testing::ExitedWithCode(7), "");
}

TEST_F(StopDeathTest, ACallTimeoutEndsTheProcessWithItsSentence) {
  EXPECT_EXIT(
      {
        const CallTimeout outer(1h, "too late");
        const CallTimeout limit(100ms, "the library does not start");
        hang();
      },
      ::testing::ExitedWithCode(1), "shoal: the library does not start\n");
}

TEST_F(StopDeathTest, ACallTimeoutInterruptsItsOwnThread) {
  EXPECT_EXIT(
      {
        std::thread([] {
          static const pid_t own = gettid();
          before_sudden_exit([] { _exit(gettid() == own ? 7 : 8); });
          const CallTimeout limit(100ms, "the library does not start");
          hang();
        }).detach();
        hang();
      },
      ::testing::ExitedWithCode(7), "");
}

TEST_F(StopDeathTest, ACallTimeoutThatIsKeptDoesNothing) {
  { const CallTimeout limit(300ms, "too late"); }
  std::this_thread::sleep_for(350ms);
}

TEST_F(StopDeathTest, ASuddenExitActsBefore) {
  EXPECT_EXIT(
      {
        before_sudden_exit([] { (void)!write(STDERR_FILENO, "cleaned", 7); });
        exit_suddenly(9);
      },
      ::testing::ExitedWithCode(9), "cleaned");
}

}  // namespace
}  // namespace shoal
