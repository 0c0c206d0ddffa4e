// Threads stand in for processes, so that ThreadSanitizer sees both sides of a slot.
#include "src/ipc/worker_slot.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <bit>
#include <chrono>
#include <string>
#include <thread>
#include <type_traits>

#include "shoal/core/error.h"

namespace shoal {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::seconds kTooLong{20};

// Slots are private to their group. An explicit instantiation may name them, and returns them
// through a friend function.
template <class Tag, auto kMember>
struct Reveal {
  friend constexpr auto reveal(Tag) { return kMember; }
};
struct SlotOf {
  friend constexpr auto reveal(SlotOf);
};
template struct Reveal<SlotOf, &WorkerGroup::slot>;

using Slot = std::remove_reference_t<
    std::invoke_result_t<decltype(reveal(SlotOf{})), const WorkerGroup&, int>>;

// The body of a worker gets the address of its slot and nothing else.
WorkerStatus status_of(Slot& slot) {
  return std::bit_cast<WorkerStatus>(static_cast<void*>(&slot));
}

WorkerStatus::Phase phase_of(std::int64_t call) {
  return static_cast<WorkerStatus::Phase>((call + 1) % 4);
}

// A reader of a phase sees all earlier writes: the call's number, environment and step, and
// (`call`, plain memory) everything else that the worker wrote.
TEST(WorkerSlotTest, APhaseBringsTheCallItBelongsTo) {
  constexpr std::int64_t kCalls = 200;
  Slot slot;
  std::int64_t call = -1;
  std::atomic<std::int64_t> seen{-1};
  const std::jthread worker([&](const std::stop_token& stop) {
    auto status = status_of(slot);
    for (std::int64_t n = 0; n < kCalls; ++n) {
      call = n;
      status.enter(phase_of(n), 1000 + n, n);
      while (seen.load(std::memory_order_acquire) != n) {
        if (stop.stop_requested()) return;
        std::this_thread::yield();
      }
    }
  });
  const auto deadline = Clock::now() + kTooLong;
  for (std::int64_t n = 0; n < kCalls; ++n) {
    while (slot.phase.load(std::memory_order_acquire) != phase_of(n)) {
      ASSERT_LT(Clock::now(), deadline) << "call " << n << " is not seen";
      std::this_thread::yield();
    }
    ASSERT_EQ(call, n);
    ASSERT_EQ(slot.beat.load(std::memory_order_relaxed), static_cast<std::uint64_t>(n) + 1);
    ASSERT_EQ(slot.env.load(std::memory_order_relaxed), 1000 + n);
    ASSERT_EQ(slot.step.load(std::memory_order_relaxed), n);
    seen.store(n, std::memory_order_release);
  }
}

// The group's own process only waits; a thread of this process writes to its slot instead.
TEST(WorkerSlotTest, AGroupChecksWhileAWorkerSteps) {
  WorkerGroup group(1, [](int, WorkerStatus) {
    for (;;) pause();
  });
  Slot& slot = (group.*reveal(SlotOf{}))(0);
  // Relaxed, so that it adds no ordering to the slot's.
  std::atomic<int> checks{0};
  const std::jthread worker([&](const std::stop_token& stop) {
    auto status = status_of(slot);
    for (std::int64_t t = 0; checks.load(std::memory_order_relaxed) < 100; ++t) {
      if (stop.stop_requested()) return;
      status.enter(WorkerStatus::kStepping, 5, t);
      status.leave();
    }
    status.enter(WorkerStatus::kStepping, 5, 12);
    slot.finish(Slot::kThrew, "the wheel came off");
  });
  std::string text;
  const auto deadline = Clock::now() + kTooLong;
  while (text.empty() && Clock::now() < deadline) {
    try {
      group.check();
    } catch (const WorkerError& e) {
      text = e.what();
      EXPECT_EQ(e.env, 5);
      EXPECT_EQ(e.step, 12);
    }
    checks.fetch_add(1, std::memory_order_relaxed);
  }
  const std::string expected = "threw while stepping environment 5 at step 12: the wheel came off";
  EXPECT_NE(text.find(expected), std::string::npos) << text;
}

}  // namespace
}  // namespace shoal
