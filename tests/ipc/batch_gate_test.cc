#include "shoal/ipc/batch_gate.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <future>
#include <numeric>
#include <thread>
#include <vector>

#include "shoal/core/arena.h"
#include "shoal/core/error.h"
#include "src/core/cpu_features.h"

namespace shoal::gate_test {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;
using Clock = std::chrono::steady_clock;
using Clients = std::vector<int>;

constexpr milliseconds kNow{0};
constexpr microseconds kAtOnce{0};
constexpr auto kNoLimit = BatchGate::kNoLimit;
constexpr seconds kLong{20};

// A wait of half this time has lost its wake-up, although the waiter looks again at the end.
template <class Wait>
auto in_time(const Wait& wait) {
  const auto start = Clock::now();
  auto found = wait();
  EXPECT_LT(Clock::now() - start, kLong / 2) << "a wake-up was lost";
  return found;
}

struct Memory {
  explicit Memory(const BatchGateOptions& options)
      : field(plan.add_bytes(BatchGate::bytes(options.clients))),
        arena(plan),
        gate(arena.data(field), options) {}
  Clients gather(int size, microseconds patience, milliseconds timeout = kNow) {
    const auto found = gate.gather(size, patience, timeout);
    return {found.begin(), found.end()};
  }
  Arena::Plan plan;
  Arena::Field field;
  Arena arena;
  BatchGate gate;
};

struct Case {
  int clients, size;
  microseconds patience;
  int spin, yields = 0;
};

// Threads stand in for processes, so that ThreadSanitizer can watch the protocol: requests and
// replies are plain memory that only the gate protects.
class BatchGateTest : public ::testing::TestWithParam<Case> {
 protected:
  static constexpr int kNumbers = 16;
  using Place = std::vector<long>;

  // Makes `times` requests, one after the other; a request contains only its number.
  static void ask(BatchGate gate, int client, long times, Place& request, const Place& reply) {
    for (long k = 0; k < times; ++k) {
      std::ranges::fill(request, client * times + k);
      const auto ticket = gate.submit(client);
      if (!in_time([&] { return gate.wait(ticket, kLong); })) return;
      ASSERT_TRUE(gate.ready(ticket));
      ASSERT_EQ(std::accumulate(reply.begin(), reply.end(), 0L), kNumbers * (client * times + k))
          << "of client " << client;
    }
  }
};

TEST_P(BatchGateTest, EveryRequestIsAnsweredOnceAndWithItsOwnReply) {
  const int clients = GetParam().clients;
  const auto patience = GetParam().patience;
  const Memory memory({.clients = clients, .spin = GetParam().spin, .yields = GetParam().yields});
  const long each = 20'000 / clients;
  const auto n = static_cast<std::size_t>(clients);
  std::vector<Place> requests(n, Place(kNumbers)), replies = requests;
  std::vector<std::jthread> threads;
  for (std::size_t c = 0; c < n; ++c)
    threads.emplace_back(ask, memory.gate, static_cast<int>(c), each, std::ref(requests[c]),
                         std::cref(replies[c]));
  auto gate = memory.gate;
  std::vector<long> next(n);
  int asking = clients;
  while (asking > 0) {
    const int most = std::min(GetParam().size, asking);
    const auto found = in_time([&] { return gate.gather(most, patience, kLong); });
    ASSERT_FALSE(found.empty());
    const auto size = static_cast<int>(found.size());
    ASSERT_TRUE(size == most || (size < most && patience < kNoLimit)) << size << " of " << most;
    for (const int client : found) {
      const auto c = static_cast<std::size_t>(client);
      ASSERT_EQ(std::accumulate(requests[c].begin(), requests[c].end(), 0L),
                kNumbers * (client * each + next[c]));
      replies[c] = requests[c];
      if (++next[c] == each) --asking;
    }
    gate.finish();
  }
  threads.clear();
  EXPECT_TRUE(gate.gather(1, kAtOnce, kNow).empty());
}

INSTANTIATE_TEST_SUITE_P(Sizes, BatchGateTest,
                         ::testing::Values(Case{1, 1, kNoLimit, 0}, Case{1, 1, kAtOnce, 100},
                                           Case{2, 2, kNoLimit, 100}, Case{3, 3, kNoLimit, 0},
                                           Case{3, 2, kNoLimit, 0}, Case{3, 3, kAtOnce, 0},
                                           Case{3, 3, kNoLimit, 0, 20}, Case{4, 2, kAtOnce, 100},
                                           Case{4, 1, kNoLimit, 0}, Case{5, 5, microseconds(50), 0},
                                           Case{40, 33, microseconds(100), 0}),
                         [](const auto& made) {
                           const auto& c = made.param;
                           const auto limit = c.patience == kNoLimit
                                                  ? "NoLimit"
                                                  : std::to_string(c.patience.count());
                           return "Clients" + std::to_string(c.clients) + "Size" +
                                  std::to_string(c.size) + "Patience" + limit + "Spin" +
                                  std::to_string(c.spin) + "Yields" + std::to_string(c.yields);
                         });

// Clients wake one another every time: a missed wake-up means waiting forever.
TEST(BatchGateTest, AllWaitForTheLastOne) {
  Memory memory({.clients = 3});
  auto& gate = memory.gate;
  const auto first = gate.submit(2), second = gate.submit(0);
  EXPECT_EQ(memory.gather(3, kNoLimit, milliseconds(30)), Clients());
  EXPECT_FALSE(gate.ready(first));
  auto served = std::async(std::launch::async, [gate]() mutable {
    const auto found = gate.gather(3, kNoLimit, kLong).size();
    gate.finish();
    return found;
  });
  const auto last = gate.submit(1);
  for (const auto& ticket : {first, second, last})
    EXPECT_TRUE(in_time([&] { return gate.wait(ticket, kLong); }));
  EXPECT_EQ(served.get(), 3U);
}

TEST(BatchGateTest, ABatchHoldsNoMoreThanItsSizeAndNobodyStarves) {
  Memory memory({.clients = 5});
  auto& gate = memory.gate;
  for (int c = 0; c < 5; ++c) gate.submit(c);
  EXPECT_EQ(memory.gather(2, kNoLimit), Clients({0, 1}));
  gate.finish();
  for (int c = 0; c < 2; ++c) gate.submit(c);
  EXPECT_EQ(memory.gather(2, kNoLimit), Clients({2, 3}));
  gate.finish();
  EXPECT_EQ(memory.gather(2, kNoLimit), Clients({4, 0}));
  gate.finish();
  EXPECT_EQ(memory.gather(2, kNoLimit), Clients()) << "one is there, and two were asked for";
  EXPECT_EQ(memory.gather(2, kAtOnce), Clients({1}));
  gate.finish();
  EXPECT_EQ(memory.gather(5, kAtOnce), Clients());
}

TEST(BatchGateTest, PatienceBeginsWithTheFirst) {
  Memory memory({.clients = 2});
  const auto start = Clock::now();
  EXPECT_EQ(memory.gather(2, milliseconds(1), milliseconds(30)), Clients());
  EXPECT_GE(Clock::now() - start, milliseconds(30)) << "nobody was there";
  memory.gate.submit(1);
  const auto known = Clock::now();
  EXPECT_EQ(in_time([&] { return memory.gather(2, milliseconds(30), kLong); }), Clients({1}));
  EXPECT_GE(Clock::now() - known, milliseconds(30)) << "a second one might have come";
}

TEST(BatchGateTest, PatienceGoesOnAfterATimeout) {
  Memory memory({.clients = 2});
  memory.gate.submit(0);
  Clients found;
  int calls = 0;
  for (; found.empty() && calls < 100; ++calls)
    found = memory.gather(2, milliseconds(500), milliseconds(10));
  EXPECT_EQ(found, Clients({0}));
  EXPECT_GT(calls, 1);
  EXPECT_LT(calls, 100);
}

TEST(BatchGateTest, WaitsEndWhereNothingHappens) {
  Memory memory({.clients = 2});
  const auto ticket = memory.gate.submit(0);
  const auto start = Clock::now();
  EXPECT_FALSE(memory.gate.wait(ticket, milliseconds(30)));
  EXPECT_GE(Clock::now() - start, milliseconds(30));
  EXPECT_EQ(memory.gather(1, kNoLimit, milliseconds::max()), Clients({0}));
  EXPECT_FALSE(memory.gate.ready(ticket));
  memory.gate.finish();
  EXPECT_TRUE(memory.gate.wait(ticket, milliseconds::max()));
}

TEST(BatchGateTest, WhoYieldsKeepsToItsTimeout) {
  Memory memory({.clients = 1, .yields = 1'000'000'000});
  const auto ticket = memory.gate.submit(0);
  EXPECT_FALSE(in_time([&] { return memory.gate.wait(ticket, milliseconds(10)); }));
  memory.gate.forget(0);
  EXPECT_EQ(in_time([&] { return memory.gather(1, kNoLimit, milliseconds(10)); }), Clients());
}

TEST(BatchGateTest, WhatIsNotFinishedIsGatheredAgain) {
  Memory memory({.clients = 2});
  memory.gate.submit(1);
  EXPECT_EQ(memory.gather(1, kNoLimit), Clients({1}));
  EXPECT_EQ(memory.gather(1, kNoLimit), Clients({1}));
}

TEST(BatchGateTest, WhoIsKeptWaitsWhileOthersAreServed) {
  Memory memory({.clients = 3});
  auto& gate = memory.gate;
  const auto first = gate.submit(0), second = gate.submit(1);
  EXPECT_EQ(memory.gather(2, kNoLimit), Clients({0, 1}));
  gate.keep();
  EXPECT_THROW(gate.submit(0), Error);
  EXPECT_TRUE(gate.keeps(0));
  EXPECT_FALSE(gate.keeps(2));
  EXPECT_EQ(memory.gather(1, kAtOnce, kNow), Clients()) << "they are there already";
  const auto third = gate.submit(2);
  EXPECT_EQ(memory.gather(1, kAtOnce), Clients({2}));
  gate.finish();
  EXPECT_TRUE(gate.ready(third));
  EXPECT_FALSE(gate.ready(first));
  gate.finish(Clients{1});
  EXPECT_TRUE(gate.ready(second));
  EXPECT_FALSE(gate.ready(first));
  // Another process takes over as this client, with its pending request.
  const auto same = gate.newest(0);
  EXPECT_FALSE(gate.wait(same, kNow));
  gate.finish(Clients{0});
  EXPECT_FALSE(gate.keeps(0));
  EXPECT_TRUE(gate.wait(same, kNow));
  gate.submit(0);
  EXPECT_EQ(memory.gather(1, kAtOnce), Clients({0}));
  gate.keep();
  gate.forget(0);
  const auto anew = gate.submit(0);
  EXPECT_EQ(memory.gather(1, kAtOnce), Clients({0}));
  gate.finish();
  EXPECT_TRUE(gate.ready(anew));
}

// At any moment: before they wait, while they fall asleep, and asleep.
TEST(BatchGateTest, StopWakesEverybody) {
  for (int moment = 0; moment < 40; ++moment) {
    Memory empty({.clients = 2}), half({.clients = 2});
    const auto ticket = half.gate.submit(0);
    std::vector<std::future<bool>> waits;
    for (auto* memory : {&empty, &half})
      waits.push_back(std::async(std::launch::async, [gate = memory->gate]() mutable {
        return in_time([&] { return gate.gather(2, kNoLimit, kLong); }).empty();
      }));
    waits.push_back(std::async(std::launch::async, [gate = half.gate, ticket]() mutable {
      return in_time([&] { return !gate.wait(ticket, kLong); });
    }));
    for (int i = 0; i < moment * 1000; ++i) pause_core();
    for (auto* memory : {&empty, &half}) memory->gate.stop();
    for (auto& wait : waits) EXPECT_TRUE(wait.get());
  }
}

TEST(BatchGateTest, NothingNewBeginsOnceItIsStopped) {
  Memory memory({.clients = 1});
  const auto answered = memory.gate.submit(0);
  memory.gather(1, kNoLimit);
  memory.gate.finish();
  memory.gate.stop();
  EXPECT_TRUE(memory.gate.stopped());
  EXPECT_TRUE(memory.gate.wait(answered, kNow)) << "what was answered still is";
  const auto ticket = memory.gate.submit(0);
  EXPECT_FALSE(in_time([&] { return memory.gate.wait(ticket, kLong); }));
  EXPECT_EQ(in_time([&] { return memory.gather(1, kAtOnce, kLong); }), Clients());
}

TEST(BatchGateTest, WhatADeadClientAskedForIsForgotten) {
  Memory memory({.clients = 2});
  auto& gate = memory.gate;
  gate.submit(0);
  gate.submit(1);
  gate.forget(0);
  EXPECT_EQ(memory.gather(2, kAtOnce), Clients({1}));
  gate.finish();
  const auto next = gate.submit(0);
  EXPECT_EQ(memory.gather(2, kAtOnce), Clients({0}));
  gate.finish();
  EXPECT_TRUE(gate.ready(next));
  gate.forget(0);
  EXPECT_TRUE(gate.ready(next)) << "what was answered still is";
}

TEST(BatchGateTest, NobodyIsAnsweredInPlaceOfADeadClient) {
  Memory memory({.clients = 2});
  auto& gate = memory.gate;
  gate.submit(0);
  const auto alive = gate.submit(1);
  EXPECT_EQ(memory.gather(2, kNoLimit), Clients({0, 1}));
  gate.forget(0);
  const auto successor = gate.submit(0);
  gate.finish();
  EXPECT_TRUE(gate.ready(alive));
  EXPECT_FALSE(gate.ready(successor));
  EXPECT_EQ(memory.gather(2, kAtOnce), Clients({0}));
}

// The count of requests is the first word; here it is about to wrap around to 0.
TEST(BatchGateTest, CountsMayWrapAround) {
  constexpr int kBatches = 6;
  Memory memory({.clients = 2});
  *reinterpret_cast<std::atomic<std::uint32_t>*>(memory.arena.data(memory.field)) = 0U - kBatches;
  auto server = std::async(std::launch::async, [gate = memory.gate]() mutable {
    for (int i = 0; i < kBatches; ++i) {
      if (in_time([&] { return gate.gather(2, kNoLimit, kLong); }).size() != 2) return false;
      gate.finish();
    }
    return true;
  });
  auto& gate = memory.gate;
  for (int i = 0; i < kBatches; ++i) {
    for (int k = 0; k < 100'000; ++k) pause_core();  // the server sleeps by now
    gate.submit(0);
    const auto last = gate.submit(1);
    EXPECT_TRUE(in_time([&] { return gate.wait(last, kLong); }));
  }
  EXPECT_TRUE(server.get());
}

TEST(BatchGateTest, MistakesAreRefused) {
  Memory memory({.clients = 2});
  auto& gate = memory.gate;
  EXPECT_THROW(BatchGate(memory.arena.data(memory.field), {.clients = 0}), Error);
  EXPECT_THROW(gate.submit(-1), Error);
  EXPECT_THROW(gate.submit(2), Error);
  EXPECT_THROW(gate.gather(0, kAtOnce, kNow), Error);
  EXPECT_THROW(gate.gather(3, kAtOnce, kNow), Error);
  const auto ticket = gate.submit(0);
  EXPECT_THROW(gate.submit(0), Error) << "one at a time";
  memory.gather(1, kAtOnce);
  gate.finish();
  gate.submit(0);
  EXPECT_THROW(gate.ready(ticket), Error) << "it is over";
  EXPECT_THROW(gate.wait(ticket, kNow), Error);
}

}  // namespace
}  // namespace shoal::gate_test
