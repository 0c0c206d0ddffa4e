#include "shoal/ipc/trajectory_ring.h"

#include <gtest/gtest.h>

#include <future>
#include <numeric>
#include <thread>
#include <vector>

#include "shoal/core/arena.h"
#include "shoal/core/error.h"
#include "src/core/cpu_features.h"

namespace shoal::ring_test {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr milliseconds kNow{0};
constexpr seconds kLong{20};

// A wait of half this time has lost its wake-up, although the waiter looks again at the end.
template <class Wait>
auto in_time(const Wait& wait) {
  const auto start = std::chrono::steady_clock::now();
  auto found = wait();
  EXPECT_LT(std::chrono::steady_clock::now() - start, kLong / 2) << "a wake-up was lost";
  return found;
}

struct Memory {
  explicit Memory(const TrajectoryRingOptions& options)
      : field(plan.add_bytes(TrajectoryRing::bytes(options.slots))),
        arena(plan),
        ring(arena.data(field), options) {}
  Arena::Plan plan;
  Arena::Field field;
  Arena arena;
  TrajectoryRing ring;
};

struct Case {
  int writers, slots, spin;
  bool drain;
};

// Threads stand in for processes, so that ThreadSanitizer can watch the protocol: the contents are
// plain memory that only the ring protects.
class TrajectoryRingTest : public ::testing::TestWithParam<Case> {};

TEST_P(TrajectoryRingTest, EveryRolloutIsReadOnceWholeAndInItsWritersOrder) {
  const auto [writers, slots, spin, drain] = GetParam();
  const Memory memory({.slots = slots, .drain = drain, .spin = spin});
  const long each = 30'000 / writers;
  std::vector<std::vector<long>> contents(static_cast<std::size_t>(slots), std::vector<long>(16));
  std::vector<std::jthread> threads;
  for (int w = 0; w < writers; ++w) {
    threads.emplace_back([&, w] {
      auto ring = memory.ring;
      for (long k = 0; k < each; ++k) {
        const auto slot = in_time([&] { return ring.acquire(w, kLong); });
        if (!slot) return;
        for (auto& x : contents[static_cast<std::size_t>(*slot)]) x = w * each + k;
        ring.publish(*slot, {.first_tick = k, .policy_version = 0});
      }
    });
  }
  auto ring = memory.ring;
  std::vector<long> next(static_cast<std::size_t>(writers));
  std::vector<bool> numbers(static_cast<std::size_t>(writers * each) + 1);
  for (long i = 0; i < writers * each; ++i) {
    const auto rollout = in_time([&] { return ring.take(0, kLong); });
    ASSERT_TRUE(rollout) << "nothing came after " << i;
    const auto w = static_cast<std::size_t>(rollout->tag.writer);
    ASSERT_EQ(rollout->tag.first_tick, next[w]++) << "of writer " << w;
    const auto& found = contents[static_cast<std::size_t>(rollout->slot)];
    ASSERT_EQ(std::accumulate(found.begin(), found.end(), 0L),
              16 * (rollout->tag.writer * each + rollout->tag.first_tick));
    auto number = numbers.at(static_cast<std::size_t>(rollout->tag.number));
    ASSERT_FALSE(number) << "number " << rollout->tag.number << " was given twice";
    number = true;
    ring.release(rollout->slot);
  }
  EXPECT_FALSE(ring.take(0, kNow));
  EXPECT_EQ(ring.counts().published, writers * each);
  EXPECT_EQ(ring.counts().taken, writers * each);
}

INSTANTIATE_TEST_SUITE_P(Sizes, TrajectoryRingTest,
                         ::testing::Values(Case{1, 1, 0, false}, Case{1, 8, 100, false},
                                           Case{2, 1, 0, false}, Case{3, 2, 0, false},
                                           Case{3, 8, 100, false}, Case{5, 3, 0, false},
                                           Case{1, 4, 0, true}, Case{3, 2, 0, true},
                                           Case{5, 8, 100, true}, Case{4, 3, 0, true}),
                         [](const auto& made) {
                           const auto& c = made.param;
                           return "Writers" + std::to_string(c.writers) + "Slots" +
                                  std::to_string(c.slots) + "Spin" + std::to_string(c.spin) +
                                  (c.drain ? "Drain" : "");
                         });

// Publishes `rollouts` rollouts with this version.
void fill(TrajectoryRing& ring, int rollouts, std::int64_t version = 0) {
  for (int i = 0; i < rollouts; ++i) {
    const auto slot = ring.acquire(0, kNow);
    ASSERT_TRUE(slot);
    ring.publish(*slot, {.policy_version = version});
  }
}

TEST(TrajectoryRingTest, WaitsEndWhereNothingHappens) {
  Memory memory({.slots = 2});
  auto& ring = memory.ring;
  const auto start = std::chrono::steady_clock::now();
  EXPECT_FALSE(ring.take(0, milliseconds(30)));
  EXPECT_GE(std::chrono::steady_clock::now() - start, milliseconds(30));
  fill(ring, 2);
  EXPECT_FALSE(ring.acquire(1, milliseconds(30))) << "it is full";
  EXPECT_GE(std::chrono::steady_clock::now() - start, milliseconds(60));
  const auto rollout = ring.take(0, milliseconds::max());
  ASSERT_TRUE(rollout);
  EXPECT_FALSE(ring.acquire(1, kNow)) << "what is read is not free";
  ring.release(rollout->slot);
  EXPECT_EQ(ring.acquire(1, milliseconds::max()), rollout->slot);
}

TEST(TrajectoryRingTest, TheReaderMayHoldSeveralRollouts) {
  Memory memory({.slots = 3});
  auto& ring = memory.ring;
  fill(ring, 3);
  const auto first = ring.take(0, kNow), second = ring.take(0, kNow);
  ASSERT_TRUE(first && second);
  EXPECT_NE(first->slot, second->slot);
  EXPECT_EQ(second->tag.number, 2);
  ring.release(second->slot);
  fill(ring, 1);
  ring.release(first->slot);
  EXPECT_EQ(ring.take(0, kNow)->tag.number, 3);
  EXPECT_EQ(ring.take(0, kNow)->tag.number, 4);
}

void read_one(TrajectoryRing& ring) {
  const auto rollout = ring.take(0, kNow);
  ASSERT_TRUE(rollout);
  ring.release(rollout->slot);
}

TEST(TrajectoryRingTest, AnySlotWillDoUnlessItDrains) {
  Memory memory({.slots = 2});
  fill(memory.ring, 2);
  EXPECT_FALSE(memory.ring.acquire(0, kNow));
  read_one(memory.ring);
  EXPECT_TRUE(memory.ring.acquire(0, kNow));
}

TEST(TrajectoryRingTest, WhoFindsItFullWaitsUntilAllIsReadIfItDrains) {
  Memory memory({.slots = 3, .drain = true});
  auto& ring = memory.ring;
  fill(ring, 2);
  read_one(ring);
  fill(ring, 2);  // it was never found full
  for (int i = 0; i < 3; ++i) {
    EXPECT_FALSE(ring.acquire(0, kNow)) << "after " << i;
    read_one(ring);
  }
  fill(ring, 3);
}

TEST(TrajectoryRingTest, WhoHoldsRolloutsAndWantsMoreEndsTheDraining) {
  Memory memory({.slots = 4, .drain = true});
  auto& ring = memory.ring;
  fill(ring, 4);
  EXPECT_FALSE(ring.acquire(0, kNow));
  for (int i = 0; i < 3; ++i) read_one(ring);
  const auto held = ring.take(0, kNow);
  ASSERT_TRUE(held);
  EXPECT_FALSE(ring.acquire(0, kNow)) << "it is being read";
  EXPECT_FALSE(ring.take(0, kNow));
  EXPECT_TRUE(ring.acquire(0, kNow)) << "otherwise both would wait for ever";
}

TEST(TrajectoryRingTest, DroppedRolloutsAreDrained) {
  Memory memory({.slots = 2, .max_lag = 1, .stale = StaleRollouts::kDrop, .drain = true});
  auto& ring = memory.ring;
  fill(ring, 2, /*version=*/1);
  EXPECT_FALSE(ring.acquire(0, kNow));
  EXPECT_FALSE(ring.take(/*version=*/9, kNow));
  EXPECT_EQ(ring.counts().dropped, 2);
  EXPECT_TRUE(ring.acquire(0, kNow));
}

TEST(TrajectoryRingTest, NobodyDrainsWhatIsBeingWritten) {
  Memory memory({.slots = 1, .drain = true});
  auto& ring = memory.ring;
  const auto slot = ring.acquire(0, kNow);
  ASSERT_TRUE(slot);
  EXPECT_FALSE(ring.acquire(1, kNow)) << "full, and nothing is there to be read";
  EXPECT_EQ(ring.reclaim(0), 1);
  EXPECT_TRUE(ring.acquire(1, kNow));
}

// At any moment: before they wait, while they fall asleep, and asleep.
TEST(TrajectoryRingTest, StopWakesEverybody) {
  for (int moment = 0; moment < 40; ++moment) {
    Memory full({.slots = 1}), empty({.slots = 1}), draining({.slots = 1, .drain = true});
    fill(full.ring, 1);
    fill(draining.ring, 1);
    std::vector<std::future<bool>> waits;
    for (auto* memory : {&full, &draining})
      waits.push_back(std::async(std::launch::async, [ring = memory->ring]() mutable {
        return in_time([&] { return ring.acquire(1, kLong); }).has_value();
      }));
    waits.push_back(std::async(std::launch::async, [ring = empty.ring]() mutable {
      return in_time([&] { return ring.take(0, kLong); }).has_value();
    }));
    for (int i = 0; i < moment * 1000; ++i) pause_core();
    for (auto* memory : {&full, &draining, &empty}) memory->ring.stop();
    for (auto& wait : waits) EXPECT_FALSE(wait.get());
  }
}

TEST(TrajectoryRingTest, NothingNewBeginsOnceItIsStopped) {
  Memory memory({.slots = 2});
  auto& ring = memory.ring;
  fill(ring, 1);
  ring.stop();
  EXPECT_TRUE(ring.stopped());
  EXPECT_FALSE(in_time([&] { return ring.acquire(0, kLong); })) << "free, but stopped";
  EXPECT_TRUE(ring.take(0, kLong)) << "what was there still is";
  EXPECT_FALSE(in_time([&] { return ring.take(0, kLong); }));
}

TEST(TrajectoryRingTest, OldRolloutsAreCountedAndDropped) {
  for (const auto stale : {StaleRollouts::kUse, StaleRollouts::kDrop}) {
    Memory memory({.slots = 4, .max_lag = 2, .stale = stale});
    auto& ring = memory.ring;
    for (const std::int64_t version : {4, 5, 4, 7}) fill(ring, 1, version);
    std::vector<std::int64_t> versions;
    while (const auto rollout = ring.take(7, kNow)) {
      versions.push_back(rollout->tag.policy_version);
      ring.release(rollout->slot);
    }
    const bool drops = stale == StaleRollouts::kDrop;
    EXPECT_EQ(versions,
              drops ? std::vector<std::int64_t>({5, 7}) : std::vector<std::int64_t>({4, 5, 4, 7}));
    EXPECT_EQ(ring.counts().stale, 2);
    EXPECT_EQ(ring.counts().dropped, drops ? 2 : 0);
    EXPECT_EQ(ring.counts().taken, drops ? 2 : 4);
    fill(ring, 4, 7);  // all slots are free again
  }
}

TEST(TrajectoryRingTest, OnlyWhatADeadWriterWasFillingIsReclaimed) {
  Memory memory({.slots = 4});
  auto& ring = memory.ring;
  fill(ring, 1);
  const auto dead = ring.acquire(0, kNow), alive = ring.acquire(1, kNow);
  ASSERT_TRUE(dead && alive);
  EXPECT_EQ(ring.reclaim(0), 1);
  EXPECT_EQ(ring.reclaim(0), 0);
  EXPECT_EQ(ring.counts().reclaimed, 1);
  ring.publish(*alive, {});
  EXPECT_EQ(ring.take(0, kNow)->tag.writer, 0);
  EXPECT_EQ(ring.take(0, kNow)->tag.writer, 1);
  EXPECT_FALSE(ring.take(0, kNow));
}

TEST(TrajectoryRingTest, MistakesAreRefused) {
  Memory memory({.slots = 2});
  auto& ring = memory.ring;
  EXPECT_THROW(TrajectoryRing(memory.arena.data(memory.field), {.slots = 0}), Error);
  EXPECT_THROW(TrajectoryRing(memory.arena.data(memory.field), {.slots = 1, .max_lag = -1}), Error);
  EXPECT_THROW(ring.acquire(-1, kNow), Error);
  EXPECT_THROW(ring.publish(0, {}), Error);
  EXPECT_THROW(ring.release(0), Error);
}

}  // namespace
}  // namespace shoal::ring_test
