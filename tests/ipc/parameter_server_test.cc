#include "shoal/ipc/parameter_server.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <functional>
#include <new>
#include <thread>
#include <vector>

#include "shoal/core/error.h"
#include "shoal/core/rng.h"
#include "shoal/ipc/worker_group.h"

namespace shoal {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t kSize = 2500;  // several blocks; no block ends at a part's boundary
constexpr float kRate = 0.25F;

void sgd(std::size_t, std::span<float> parameters, std::span<const float> gradient) {
  for (std::size_t i = 0; i < gradient.size(); ++i) parameters[i] -= kRate * gradient[i];
}

std::vector<float> initial() {
  std::vector<float> all(kSize);
  for (std::size_t i = 0; i < kSize; ++i) all[i] = static_cast<float>(i);
  return all;
}

// Trainer t's target for number i is t + i / 1000; the sum of squared distances is least at the
// mean of the targets.
float wanted(int trainer, std::size_t i) {
  return static_cast<float>(trainer) + static_cast<float>(i) / 1000;
}

using Count = std::atomic<std::int64_t>;

// Counters in shared memory.
class Counts {
 public:
  Counts() : field_(plan_.add_bytes(sizeof(std::array<Count, 3>))), arena_(plan_) {
    for (int i = 0; i < 3; ++i) new (&of(i)) Count(0);
  }
  Count& of(int which) { return reinterpret_cast<Count*>(arena_.data(field_))[which]; }

 private:
  Arena::Plan plan_;
  Arena::Field field_;
  Arena arena_;
};

[[noreturn]] void train(const ParameterServer& server, int number, Count* pushes = nullptr) {
  auto trainer = server.trainer(number);
  for (;;) {
    for (std::size_t i = 0; i < kSize; ++i)
      trainer.gradient()[i] = trainer.parameters()[i] - wanted(number, i);
    if (!trainer.push()) std::_Exit(0);
    if (pushes != nullptr) ++*pushes;
  }
}

double distance(const ParameterServer& server, float mean) {
  double most = 0;
  for (std::size_t i = 0; i < kSize; ++i)
    most = std::max<double>(most,
                            std::abs(server.parameters()[i] - mean - static_cast<float>(i) / 1000));
  return most;
}

// Fails the test after a time that means a lost wake-up.
void serve_until(ParameterServer& server, WorkerGroup& trainers,
                 const std::function<bool()>& done) {
  const auto deadline = std::chrono::steady_clock::now() + 30s;
  while (!done()) {
    server.serve(100ms);
    trainers.check();  // even if others are always served
    ASSERT_LT(std::chrono::steady_clock::now(), deadline);
  }
}
void serve_until(ParameterServer& server, WorkerGroup& trainers, std::int64_t updates) {
  serve_until(server, trainers, [&] { return server.updates() >= updates; });
}

TEST(ParameterServerTest, SynchronousTrainersMakeUpdatesOfTheMeanOfTheirGradients) {
  constexpr int kTrainers = 3, kUpdates = 40;
  ParameterServer server(initial(), {.trainers = kTrainers}, sgd);
  WorkerGroup trainers(kTrainers, [&](int w, WorkerStatus) { train(server, w); });
  auto expected = initial();
  for (int update = 1; update <= kUpdates; ++update) {
    serve_until(server, trainers, update);
    for (std::size_t i = 0; i < kSize; ++i)
      expected[i] -= kRate * (expected[i] - (wanted(0, i) + wanted(1, i) + wanted(2, i)) / 3);
    // The next update cannot begin before all have submitted their gradients to serve().
    for (std::size_t i = 0; i < kSize; ++i)
      ASSERT_NEAR(server.parameters()[i], expected[i], 1e-5F * (1 + expected[i]))
          << "number " << i << " after update " << update;
  }
  EXPECT_LT(distance(server, 1), 0.05);
  EXPECT_EQ(server.most_stale(), 0);
  EXPECT_EQ(server.mean_stale(), 0);
}

TEST(ParameterServerTest, AsynchronousOnesMakeOneOfEach) {
  constexpr int kTrainers = 3;
  ParameterServer server(initial(), {.trainers = kTrainers, .asynchronous = true}, sgd);
  Counts pushes;
  WorkerGroup trainers(kTrainers, [&](int w, WorkerStatus) { train(server, w, &pushes.of(w)); });
  std::int64_t all = 0;
  serve_until(server, trainers, [&] {
    all = pushes.of(0) + pushes.of(1) + pushes.of(2);
    return pushes.of(0) >= 100 && pushes.of(1) >= 100 && pushes.of(2) >= 100;
  });
  // One gradient per trainer may have been applied but not counted by it.
  EXPECT_GE(server.updates(), all);
  EXPECT_LE(server.updates(), all + kTrainers);
  EXPECT_LT(distance(server, 1), 1.1) << "it is where the trainers want it, or between";
}

// Pushes in sequence, so that the order is known.
void push(ParameterServer& server, int number, float gradient) {
  auto trainer = server.trainer(number);
  trainer.gradient()[0] = gradient;
  const std::jthread waits([&] { trainer.push(); });
  while (server.serve(100ms) == 0) continue;
}

TEST(ParameterServerTest, StalenessIsTheUpdatesSinceTheParametersWereHandedOut) {
  ParameterServer server(std::vector<float>{8}, {.trainers = 3, .asynchronous = true}, sgd);
  push(server, 0, 4);  // 8 - 1
  EXPECT_EQ(server.parameters()[0], 7);
  EXPECT_EQ(server.trainer(0).parameters()[0], 7);
  EXPECT_EQ(server.trainer(1).parameters()[0], 8) << "it has not asked";
  EXPECT_EQ(server.most_stale(), 0);
  push(server, 0, 4);
  EXPECT_EQ(server.most_stale(), 0) << "one alone is never behind";
  push(server, 1, 4);
  EXPECT_EQ(server.most_stale(), 2);
  push(server, 2, 4);
  EXPECT_EQ(server.most_stale(), 3);
  EXPECT_EQ(server.mean_stale(), 5.0 / 4);
  EXPECT_EQ(server.parameters()[0], 4);
}

TEST(ParameterServerTest, WhatIsTooStaleIsLeftOutAndItsTrainerBroughtUpToDate) {
  ParameterServer server(std::vector<float>{8},
                         {.trainers = 2, .asynchronous = true, .most_stale = 1}, sgd);
  push(server, 0, 4);
  push(server, 1, 4);  // stale by one
  EXPECT_EQ(server.left_out(), 0);
  push(server, 1, 4);
  push(server, 0, 4);  // stale by two
  EXPECT_EQ(server.left_out(), 1);
  EXPECT_EQ(server.updates(), 3);
  EXPECT_EQ(server.parameters()[0], 5);
  EXPECT_EQ(server.trainer(0).parameters()[0], 5);
  EXPECT_EQ(server.most_stale(), 1);
}

// A rule in which the first parameter counts the updates, and a gradient's first number is the
// count at which it was computed: this gives its staleness independently of the server's counters.
struct Ages {
  void operator()(std::size_t, std::span<float> updates, std::span<const float> seen) const {
    *oldest = std::max(*oldest, updates[0] - seen[0]);
    ++updates[0];
  }
  float* oldest;
};

TEST(ParameterServerTest, NothingOlderThanTheBoundIsEverApplied) {
  for (const int bound : {0, 1, 3}) {
    SCOPED_TRACE(bound);
    float oldest = 0;
    ParameterServer server(std::vector<float>{0},
                           {.trainers = 3, .asynchronous = true, .most_stale = bound},
                           Ages{&oldest});
    std::array<int, 3> seen{};
    int made = 0, refused = 0;
    Rng rng(1);
    for (int i = 1; i <= 300; ++i) {
      const auto who = static_cast<int>(i % 10 == 0 ? 2 : rng.integer(0, 2));  // 2 is slow
      auto& its = seen[static_cast<std::size_t>(who)];
      ASSERT_EQ(server.trainer(who).parameters()[0], static_cast<float>(its)) << "number " << i;
      ++(made - its > bound ? refused : made);
      push(server, who, static_cast<float>(its));
      its = made;
      ASSERT_EQ(server.updates(), made) << "after gradient " << i << ", of trainer " << who;
      ASSERT_EQ(server.left_out(), refused);
      ASSERT_EQ(server.parameters()[0], static_cast<float>(made));
    }
    EXPECT_EQ(oldest, static_cast<float>(bound));
    EXPECT_EQ(server.most_stale(), bound);
    EXPECT_GE(refused, 30) << "the slow one is too late each time, at least";
  }
}

TEST(ParameterServerTest, ASlowTrainerIsLeftOutWhileTheOthersGoOn) {
  constexpr int kBound = 2, kTimes = 30;
  Counts counts;
  auto &made = counts.of(0), &late = counts.of(1);
  float oldest = 0;
  const auto rule = [&](std::size_t from, std::span<float> updates, std::span<const float> seen) {
    Ages{&oldest}(from, updates, seen);
    made = static_cast<std::int64_t>(updates[0]);
  };
  ParameterServer server(std::vector<float>{0},
                         {.trainers = 3, .asynchronous = true, .most_stale = kBound}, rule);
  WorkerGroup trainers(3, [&](int w, WorkerStatus) {
    auto trainer = server.trainer(w);
    for (;;) {
      const auto seen = static_cast<std::int64_t>(trainer.parameters()[0]);
      trainer.gradient()[0] = static_cast<float>(seen);
      // The slow trainer waits until the others have made its gradient too stale.
      while (w == 0 && made <= seen + kBound) std::this_thread::yield();
      if (!trainer.push()) std::_Exit(0);
      if (w > 0) continue;
      require(trainer.parameters()[0] > static_cast<float>(seen + kBound), "it was not told more");
      ++late;
    }
  });
  serve_until(server, trainers, [&] { return late >= kTimes; });
  EXPECT_LE(oldest, kBound);
  EXPECT_EQ(server.most_stale(), static_cast<std::int64_t>(oldest));
  EXPECT_GE(server.left_out(), kTimes);
  EXPECT_GE(server.updates(), kTimes * (kBound + 1));
}

TEST(ParameterServerTest, AKilledSynchronousTrainerIsNamed) {
  ParameterServer server(initial(), {.trainers = 3}, sgd);
  WorkerGroup trainers(3, [&](int w, WorkerStatus) { train(server, w); });
  serve_until(server, trainers, 5);
  kill(trainers.pids()[1], SIGKILL);
  EXPECT_THROW(serve_until(server, trainers, 1'000'000), WorkerError);
}

TEST(ParameterServerTest, AKilledAsynchronousOneIsReplacedWhileTheOthersGoOn) {
  ParameterServer server(initial(), {.trainers = 2, .asynchronous = true}, sgd);
  Counts pushes;  // served pushes per trainer
  WorkerGroup trainers(2, [&](int w, WorkerStatus) { train(server, w, &pushes.of(w)); },
                       {.on_death = OnDeath::kRestart,
                        .before_restart = [&](int w, const WorkerError&) { server.forget(w); }});
  while (pushes.of(1) == 0) {  // before that it may have no process yet
    server.serve(100ms);
    trainers.check();
  }
  trainers.allow_restarts();
  const pid_t victim = trainers.pids()[1];
  ASSERT_GT(victim, 0);
  kill(victim, SIGKILL);
  // The other trainer is always served; deaths are still detected.
  while (trainers.restarts() == 0) {
    server.serve(100ms);
    trainers.check();
  }
  const auto of_new = pushes.of(1).load(), of_other = pushes.of(0).load();
  while (pushes.of(1) < of_new + 100 || pushes.of(0) < of_other + 100) {
    server.serve(100ms);
    trainers.check();  // throws if the replacement could not be served
  }
  EXPECT_EQ(trainers.restarts(), 1);
}

TEST(ParameterServerTest, StopEndsEveryTrainer) {
  ParameterServer server(initial(), {.trainers = 2}, sgd);
  bool ended = true;
  {
    auto trainer = server.trainer(0);
    const std::jthread waits([&] { ended = trainer.push(); });
    server.serve(50ms);  // by now it waits, or will find the server stopped
    server.stop();
  }
  EXPECT_FALSE(ended) << "it waited when the server was stopped";
  EXPECT_FALSE(server.trainer(1).push());
}

TEST(ParameterServerTest, OptionsThatMakeNoSenseAreErrors) {
  EXPECT_THROW(ParameterServer(initial(), {.trainers = 0}, sgd), Error);
  EXPECT_THROW(ParameterServer(initial(), {.most_stale = 1}, sgd), Error);
  EXPECT_THROW(ParameterServer(initial(), {.asynchronous = true, .most_stale = -2}, sgd), Error);
  ParameterServer server(initial(), {}, sgd);
  EXPECT_THROW(server.forget(0), Error);
}

}  // namespace
}  // namespace shoal
