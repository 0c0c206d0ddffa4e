#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "shoal/ipc/trajectory_ring.h"
#include "tests/ipc/interleavings.h"

// No wake-up is lost, at whatever instruction a side of the ring is interrupted.
namespace shoal::ring_step_test {
namespace {

constexpr std::chrono::milliseconds kNow{0};
constexpr std::chrono::hours kLong{1};  // never expires

void need(bool got) {
  if (!got) Interleavings::leave();
}

Side acquires(int writer, int slots) {
  return {"a writer that acquires", [=](auto& ring) {
            for (int i = 0; i < slots; ++i) need(ring.acquire(writer, kLong).has_value());
          }};
}

Side publishes(int slot) {
  return {"a writer that publishes", [=](auto& ring) { ring.publish(slot, {}); }};
}

Side writes(int writer, int rollouts) {
  return {"writer " + std::to_string(writer), [=](auto& ring) {
            for (int i = 0; i < rollouts; ++i) {
              const auto slot = ring.acquire(writer, kLong);
              need(slot.has_value());
              ring.publish(*slot, {.policy_version = 1});
            }
          }};
}

Side reads(int rollouts) {
  return {"the reader", [=](auto& ring) {
            for (int i = 0; i < rollouts; ++i) {
              const auto rollout = ring.take(1, kLong);
              need(rollout.has_value());
              ring.release(rollout->slot);
            }
          }};
}

void fill(TrajectoryRing& ring, int rollouts) {
  for (int i = 0; i < rollouts; ++i) ring.publish(ring.acquire(0, kLong).value(), {});
}

TEST(RingStepTest, PublishMeetsTake) {
  Interleavings interleavings(
      {.slots = 1},
      {publishes(0), {"the reader", [](auto& ring) { need(!!ring.take(0, kLong)); }}});
  ASSERT_EQ(interleavings.ring().acquire(0, kLong), 0);
  interleavings.explore(2);
}

TEST(RingStepTest, ReleaseMeetsAcquire) {
  Interleavings interleavings(
      {.slots = 1}, {acquires(1, 1), {"the reader", [](auto& ring) { ring.release(0); }}});
  fill(interleavings.ring(), 1);
  ASSERT_TRUE(interleavings.ring().take(0, kLong));
  interleavings.explore(2);
}

TEST(RingStepTest, ReclaimMeetsAcquire) {
  Interleavings interleavings(
      {.slots = 1},
      {acquires(1, 1), {"the reader", [](auto& ring) { need(ring.reclaim(0) == 1); }}});
  ASSERT_TRUE(interleavings.ring().acquire(0, kLong));
  interleavings.explore(1);
}

// In each order, the last action of one side is the one that another side waits for: no later
// action makes up for a lost wake-up.
TEST(RingStepTest, AWriterWaitsForAnySlot) {
  Interleavings interleavings({.slots = 2}, {acquires(1, 2), reads(2)});
  fill(interleavings.ring(), 2);
  interleavings.explore(1);
}

// After the first slot is free, the reader waits for the second: a writer that was woken too late
// for the first has parked again by then.
TEST(RingStepTest, AWriterWaitsForTheSlotAfterTheNext) {
  Interleavings interleavings({.slots = 2}, {acquires(1, 2), publishes(1), reads(2)});
  fill(interleavings.ring(), 1);
  ASSERT_EQ(interleavings.ring().acquire(0, kLong), 1);
  ASSERT_FALSE(interleavings.ring().acquire(1, kNow)) << "it raises the flag, and there is nobody";
  interleavings.explore(1);
}

TEST(RingStepTest, TheReaderWaitsForRollouts) {
  Interleavings interleavings({.slots = 2}, {writes(1, 2), reads(2)});
  interleavings.explore(1);
}

TEST(RingStepTest, WritersWaitForASlot) {
  Interleavings interleavings({.slots = 2}, {acquires(1, 1), acquires(2, 1), reads(2)});
  fill(interleavings.ring(), 2);
  interleavings.explore(1);
}

TEST(RingStepTest, DroppedRolloutsMakeRoom) {
  Interleavings interleavings({.slots = 2, .max_lag = 0, .stale = StaleRollouts::kDrop},
                              {writes(1, 1), reads(1)});
  fill(interleavings.ring(), 2);
  interleavings.explore(1);
}

// The reader asks for all rollouts: a writer may begin to drain a ring that is empty by then.
TEST(RingStepTest, WritersWaitUntilTheRingIsDrained) {
  for (const int slots : {1, 2}) {
    std::vector<Side> sides{reads(3), writes(1, 1)};
    if (slots == 1) sides.push_back(writes(2, 1));
    Interleavings interleavings({.slots = slots, .drain = true}, std::move(sides));
    fill(interleavings.ring(), slots);
    interleavings.explore(1);
  }
}

TEST(RingStepTest, StopEndsEveryWait) {
  Interleavings interleavings({.slots = 1},
                              {{"a writer", [](auto& ring) { ring.acquire(1, kLong); }},
                               {"the reader", [](auto& ring) { ring.take(0, kLong); }},
                               {"who stops it", [](auto& ring) { ring.stop(); }}});
  ASSERT_TRUE(interleavings.ring().acquire(0, kLong));
  interleavings.explore(1);
}

}  // namespace
}  // namespace shoal::ring_step_test
