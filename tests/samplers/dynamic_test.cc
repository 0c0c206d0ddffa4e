#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "shoal/samplers/async_sampler.h"
#include "tests/samplers/expect_samples.h"
#include "tests/support/fake_accelerator.h"
#include "tests/support/toy_agents.h"
#include "tests/support/toy_envs.h"

// Dynamic batching: free-running workers, and rollouts that are cut short.
namespace shoal {
namespace {

namespace dynamic_test {

using namespace std::chrono_literals;

constexpr std::int64_t kEnvs = 4;

// Number of steps that each environment has taken, in shared memory.
class Clocks {
 public:
  Clocks()
      : steps_(static_cast<std::atomic<std::int64_t>*>(
            mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0))) {}
  ~Clocks() { munmap(steps_, kBytes); }
  Clocks(const Clocks&) = delete;
  Clocks& operator=(const Clocks&) = delete;

  std::atomic<std::int64_t>& of(std::int64_t env) const { return steps_[env]; }
  // Least and most steps among all environments but one.
  std::int64_t least_but(std::int64_t env) const { return of_others(env, false); }
  std::int64_t most_but(std::int64_t env) const { return of_others(env, true); }

 private:
  std::int64_t of_others(std::int64_t env, bool most) const {
    std::int64_t found = of(env == 0 ? 1 : 0);
    for (std::int64_t b = 0; b < kEnvs; ++b)
      if (b != env) found = most ? std::max(found, of(b).load()) : std::min(found, of(b).load());
    return found;
  }
  static constexpr std::size_t kBytes = kEnvs * sizeof(std::atomic<std::int64_t>);
  std::atomic<std::int64_t>* steps_;
};

constexpr std::int64_t kStraggler = 1;

// One of the environments waits, in its second step of each of the first `rollouts` rollouts, until
// all others have filled theirs of `horizon` steps, or for `patience`.
struct Slowness {
  std::int64_t horizon, rollouts;
  bool mid_batch_reset = true;
  std::chrono::milliseconds patience = 1s;
};

class Straggling : public testing::Zoo {
 public:
  Straggling(const Clocks& clocks, std::int64_t env, const Slowness& slowness)
      : clocks_(clocks), env_(env), slowness_(slowness) {}

  StepResult step(ArraysIn action, StepOut out) override {
    if (env_ == kStraggler && waited_ < slowness_.rollouts) maybe_wait();
    const auto result = Zoo::step(action, out);
    auto& clock = clocks_.of(env_);
    const auto horizon = slowness_.horizon;
    ++clock;
    if (result.episode_over() && !slowness_.mid_batch_reset)
      clock = (clock + horizon - 1) / horizon * horizon;
    return result;
  }

 private:
  void maybe_wait() {
    // It may get more steps of the last rollout before the others are known to have filled theirs.
    const auto horizon = slowness_.horizon;
    const bool begun = waited_ == 0 || clocks_.most_but(env_) > waited_ * horizon;
    if (!begun || ++steps_ < 2) return;
    const auto deadline = std::chrono::steady_clock::now() + slowness_.patience;
    while (clocks_.least_but(env_) < (waited_ + 1) * horizon &&
           std::chrono::steady_clock::now() < deadline)
      std::this_thread::yield();
    ++waited_;
    steps_ = 0;
  }

  const Clocks& clocks_;
  std::int64_t env_;
  Slowness slowness_;
  std::int64_t waited_ = 0, steps_ = 0;
};

EnvFactory straggling(const Clocks& clocks, const Slowness& slowness) {
  return [&clocks, slowness](const EnvContext& c) {
    return std::make_unique<Straggling>(clocks, c.index, slowness);
  };
}

// Its actions depend on observations only, not on the step.
class Steady : public testing::ToyAgent {
 public:
  Steady() : ToyAgent(3) {}
  void act(const ActIn& in, ActOut& out) override {
    auto steady = in;
    const std::vector<NoiseKey::Row> rows(static_cast<std::size_t>(in.is_first.size(0)));
    steady.noise = {.first_env = -1, .rows = rows};
    ToyAgent::act(steady, out);
  }
};

SamplerOptions own_pace(std::int64_t horizon, bool mid_batch_reset) {
  return {.kind = SamplerKind::kParallelGpu,
          .horizon = horizon,
          .envs = kEnvs,
          .workers = kEnvs,
          .dynamic_batch = 1,
          .mid_batch_reset = mid_batch_reset};
}

TEST(DynamicTest, AFastWorkerNeedNotWaitForASlowOne) {
  for (const bool asynchronous : {false, true}) {
    const Clocks clocks;
    testing::ToyAgent agent(3), actor(3), other(3);
    const auto o = own_pace(9, true);
    const auto plain = make_sampler(testing::make_zoo(), other, serial(9, kEnvs));
    std::unique_ptr<Sampler> sampler;
    const auto make_env = straggling(clocks, {.horizon = 9, .rollouts = 1});
    if (asynchronous)
      sampler = make_async_sampler(make_env, agent, actor, o);
    else
      sampler = make_sampler(make_env, agent, o);
    const auto before = std::chrono::steady_clock::now();
    for (int i = 0; i < 3; ++i) expect_same_batches(plain->collect(), sampler->collect());
    EXPECT_LT(std::chrono::steady_clock::now() - before, 900ms) << "they have waited";
  }
}

// The valid steps and the episodes of an environment, over all rollouts.
struct Story {
  std::vector<NamedTensors> steps;
  std::vector<Episode> episodes;
};

at::Tensor at_step(const at::Tensor& all, std::int64_t t, std::int64_t b) {
  return all[t][b].clone();
}

void add(const Batch& batch, std::int64_t b, Story& story) {
  const auto& s = batch.samples;
  for (std::int64_t t = 0; t < s.T; ++t) {
    if (!s.valid[t][b].item<bool>()) continue;
    auto& step = story.steps.emplace_back();
    for (const auto& [name, o] : s.observed)
      step.add("observation/" + name, o.narrow(t * s.B + b, 1).dense().clone());
    for (const auto& [name, x] : {std::pair{"action", s.action[0]},
                                  {"mask", s.mask[0]},
                                  {"value", s.agent_info.at("value")},
                                  {"score", s.env_info.at("score")},
                                  {"reward", s.reward},
                                  {"terminated", s.terminated},
                                  {"truncated", s.truncated},
                                  {"first", s.is_first},
                                  {"final value", s.final_value}})
      step.add(name, at_step(x, t, b));
    if (s.is_first[t][b].item<bool>()) continue;  // the following are meaningless there
    step.add("previous reward", at_step(s.previous_reward, t, b));
    step.add("previous action", at_step(s.previous_action[0], t, b));
  }
  for (const auto& e : batch.episodes)
    if (e.env == b) story.episodes.push_back(e);
}

void expect_same_story(const Story& expected, const Story& found) {
  ASSERT_LE(found.steps.size(), expected.steps.size());
  for (std::size_t i = 0; i < found.steps.size(); ++i)
    expect_equal(expected.steps[i], found.steps[i], "step " + std::to_string(i));
  ASSERT_LE(found.episodes.size(), expected.episodes.size());
  for (std::size_t i = 0; i < found.episodes.size(); ++i) {
    const auto &want = expected.episodes[i], &have = found.episodes[i];
    EXPECT_EQ(want.length, have.length);
    EXPECT_EQ(want.number, have.number);
    EXPECT_EQ(want.reward, have.reward);
    EXPECT_EQ(want.score, have.score);
  }
}

enum class Actor { kHere, kOnADevice, kBesideTheCaller };

// The rollout of a slow environment ends after its current step, and the next one continues from
// there: with the same episode, stack and state, as if there were no rollouts. The same holds if
// resets wait.
void expect_cut_rollouts(std::int64_t horizon, bool mid_batch_reset, Actor where) {
  constexpr int kRollouts = 20;
  testing::FakeAccelerator fake;  // switched off before the agents go
  std::optional<testing::FakeAccelerator::On> on;
  const Clocks clocks;
  Steady agent, actor, other;
  auto o = own_pace(horizon, mid_batch_reset);
  o.preempt_share = 0.75;
  std::unique_ptr<Sampler> sampler;
  const auto make_env = straggling(clocks, {horizon, kRollouts, mid_batch_reset, 100ms});
  const auto plain = make_sampler(testing::make_zoo(), other, serial(horizon, kEnvs));
  const auto device = [&](bool used) {
    on.reset();
    if (used && where == Actor::kOnADevice) on.emplace(fake);
  };
  device(true);
  if (where == Actor::kBesideTheCaller)
    sampler = make_async_sampler(make_env, agent, actor, o);
  else
    sampler = make_sampler(make_env, agent, o);
  std::vector<Story> stories(kEnvs), expected(kEnvs);
  int cut = 0;
  for (int i = 0; i < kRollouts + 2; ++i) {
    device(false);
    const auto whole = plain->collect();
    for (std::int64_t b = 0; b < kEnvs; ++b) add(whole, b, expected[static_cast<std::size_t>(b)]);
    if (i < 2) continue;  // `expected` stays ahead
    device(true);
    const auto batch = sampler->collect();
    const auto& s = batch.samples;
    EXPECT_EQ(s.first_tick, (i - 2) * horizon);
    EXPECT_EQ(s.steps, s.valid.sum().item<std::int64_t>());
    for (std::int64_t b = 0; b < kEnvs; ++b) {
      auto& story = stories[static_cast<std::size_t>(b)];
      add(batch, b, story);
      const auto steps = s.valid.select(1, b).sum().item<std::int64_t>();
      ASSERT_GT(steps, 0);
      const auto rest = [&](const at::Tensor& x) {
        return x.select(1, b).narrow(0, steps, horizon - steps);
      };
      EXPECT_FALSE(rest(s.valid).any().item<bool>());
      for (const auto* x : {&s.reward, &s.terminated, &s.truncated, &s.final_value, &s.action[0]})
        EXPECT_FALSE(rest(*x).ne(0).any().item<bool>());
      EXPECT_TRUE(steps == horizon || s.bootstrap_value[b].item<float>() == 0);
      // If the rollout was cut after this step and no episode ended, final_value is the value that
      // the agent records for the next observation.
      auto& last = story.steps.back();
      const auto& want = expected[static_cast<std::size_t>(b)].steps;
      ASSERT_LT(story.steps.size(), want.size());
      const auto &same = want[story.steps.size() - 1], &next = want[story.steps.size()];
      if (!last.at("truncated").item<bool>() || same.at("truncated").item<bool>()) continue;
      ++cut;
      EXPECT_LT(steps, horizon);
      EXPECT_EQ(last.at("final value").item<float>(), next.at("value").item<float>());
      last.at("truncated").fill_(false);
      last.at("final value").fill_(0);
    }
  }
  // If resets wait, fast environments wait, too, and slow ones may catch up.
  EXPECT_GT(cut, !mid_batch_reset ? -1 : 1);
  for (std::size_t env = 0; env < kEnvs; ++env) {
    SCOPED_TRACE(env);
    expect_same_story(expected[env], stories[env]);
  }
}

TEST(DynamicTest, StragglersAreCutShortAndGoOn) {
  for (const std::int64_t horizon : {12, 13})
    for (const bool mid_batch_reset : {true, false})
      for (const auto where : {Actor::kHere, Actor::kOnADevice, Actor::kBesideTheCaller}) {
        SCOPED_TRACE(fmt::format("{} steps{}{}", horizon, !mid_batch_reset ? ", resets wait" : "",
                                 where == Actor::kHere        ? ""
                                 : where == Actor::kOnADevice ? ", on a device"
                                                              : ", while the caller learns"));
        expect_cut_rollouts(horizon, mid_batch_reset, where);
        if (::testing::Test::HasFailure()) return;
      }
}

// A resumed sampler continues with the first step that was cut.
TEST(DynamicTest, WhatWasCutShortIsSaved) {
  constexpr std::int64_t kT = 13;
  const Clocks clocks;
  Steady agent, other;
  auto o = own_pace(kT, true);
  o.preempt_share = 0.75;
  const auto saving = make_sampler(straggling(clocks, {kT, 1}), agent, o);
  EXPECT_LT(saving->collect().samples.steps, kT * kEnvs);
  const auto resumed =
      make_sampler(testing::make_zoo(), other, serial(kT, kEnvs), saving->save(true));
  const auto batch = saving->collect(), whole = resumed->collect();
  for (std::int64_t b = 0; b < kEnvs; ++b) {
    Story one, two;
    add(batch, b, one);
    add(whole, b, two);
    one.steps.pop_back();  // its rollout may be cut there, even without a straggler
    expect_same_story(two, one);
  }
}

}  // namespace dynamic_test
}  // namespace
}  // namespace shoal
