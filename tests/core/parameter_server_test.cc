#include "shoal/core/parameter_server.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <thread>
#include <vector>

#include "shoal/core/error.h"
#include "shoal/core/worker_group.h"

namespace shoal {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t kSize = 2500;  // of several blocks, none of which ends where a part does
constexpr float kRate = 0.25F;

void sgd(std::size_t, std::span<float> parameters, std::span<const float> gradient) {
  for (std::size_t i = 0; i < gradient.size(); ++i) parameters[i] -= kRate * gradient[i];
}

std::vector<float> initial() {
  std::vector<float> all(kSize);
  for (std::size_t i = 0; i < kSize; ++i) all[i] = static_cast<float>(i);
  return all;
}

// Trainer t wants number i to be t + i / 1000; the mean of all of them is where the sum of the
// squared distances is least.
float wanted(int trainer, std::size_t i) {
  return static_cast<float>(trainer) + static_cast<float>(i) / 1000;
}

using Count = std::atomic<std::int64_t>;

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

void serve_until(ParameterServer& server, WorkerGroup& trainers, std::int64_t updates) {
  while (server.updates() < updates)
    if (server.serve(100ms) == 0) trainers.check();
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
    // The next update cannot begin before all have handed their gradients over to serve().
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
  WorkerGroup trainers(kTrainers, [&](int w, WorkerStatus) { train(server, w); });
  double mean = 0;
  constexpr int kUpdates = 3000, kWarm = 300;
  for (int update = 0; update < kWarm + kUpdates; ++update) {
    serve_until(server, trainers, update + 1);
    if (update >= kWarm) mean += server.parameters()[0] / kUpdates;
  }
  EXPECT_LT(distance(server, 1), 1.1) << "it is where the trainers want it, or between";
  EXPECT_NEAR(mean, 1, 0.5) << "one of them is hardly ever served";
}

// One after the other, so that the order is known.
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
  push(server, 1, 4);  // behind by one
  EXPECT_EQ(server.left_out(), 0);
  push(server, 1, 4);
  push(server, 0, 4);  // behind by two
  EXPECT_EQ(server.left_out(), 1);
  EXPECT_EQ(server.updates(), 3);
  EXPECT_EQ(server.parameters()[0], 5);
  EXPECT_EQ(server.trainer(0).parameters()[0], 5);
  EXPECT_EQ(server.most_stale(), 1);
}

TEST(ParameterServerTest, AKilledSynchronousTrainerIsNamed) {
  ParameterServer server(initial(), {.trainers = 3}, sgd);
  WorkerGroup trainers(3, [&](int w, WorkerStatus) { train(server, w); });
  serve_until(server, trainers, 5);
  kill(trainers.pids()[1], SIGKILL);
  EXPECT_THROW(serve_until(server, trainers, 1'000'000), WorkerError);
}

// How often each trainer was served, in memory that all see.
class Pushes {
 public:
  Pushes() : field_(plan_.add_bytes(sizeof(std::array<Count, 2>))), arena_(plan_) {}
  Count& of(int trainer) { return reinterpret_cast<Count*>(arena_.data(field_))[trainer]; }

 private:
  Arena::Plan plan_;
  Arena::Field field_;
  Arena arena_;
};

TEST(ParameterServerTest, AKilledAsynchronousOneIsReplacedWhileTheOthersGoOn) {
  ParameterServer server(initial(), {.trainers = 2, .asynchronous = true}, sgd);
  Pushes pushes;
  WorkerGroup trainers(2, [&](int w, WorkerStatus) { train(server, w, &pushes.of(w)); },
                       {.on_death = OnDeath::kRestart,
                        .before_restart = [&](int w, const WorkerError&) { server.forget(w); }});
  serve_until(server, trainers, 5);
  trainers.allow_restarts();
  kill(trainers.pids()[1], SIGKILL);
  // The other one is always served: deaths are looked for all the same.
  while (trainers.restarts() == 0) {
    server.serve(100ms);
    trainers.check();
  }
  const auto of_new = pushes.of(1).load(), of_other = pushes.of(0).load();
  while (pushes.of(1) < of_new + 100 || pushes.of(0) < of_other + 100) {
    server.serve(100ms);
    trainers.check();  // which would throw if the new one could not be served
  }
  EXPECT_EQ(trainers.restarts(), 1);
}

TEST(ParameterServerTest, StopEndsEveryTrainer) {
  ParameterServer server(initial(), {.trainers = 2}, sgd);
  bool ended = true;
  {
    const std::jthread waits([&] { ended = server.trainer(0).push(); });
    server.serve(50ms);  // by then it waits, or will find the server stopped
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
