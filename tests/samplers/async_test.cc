#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "shoal/samplers/async_sampler.h"
#include "tests/samplers/expect_samples.h"
#include "tests/support/fake_accelerator.h"
#include "tests/support/message_of.h"
#include "tests/support/toy_agents.h"
#include "tests/support/toy_envs.h"

namespace shoal {
namespace {

namespace async_test {

using testing::make_counter;
using testing::make_zoo;
using testing::ToyAgent;

at::Tensor columns(const at::Tensor& all, std::int64_t first, std::int64_t n) {
  return all.narrow(1, first, n).clone();
}

NamedTensors columns(const NamedTensors& all, std::int64_t first, std::int64_t n) {
  NamedTensors out;
  for (const auto& [name, x] : all) out.add(name, columns(x, first, n));
  return out;
}

// Copies of the samples and episodes of some of a rollout's environments.
struct Part {
  Samples samples;
  std::vector<Episode> episodes;
};

Part part_of(const Batch& batch, std::int64_t first, std::int64_t n) {
  const auto& s = batch.samples;
  Part out;
  auto& x = out.samples;
  x.T = s.T, x.B = n, x.first_tick = s.first_tick;
  x.observation = columns(s.observation, first, n);
  for (const auto& [name, o] : s.observed) {
    const auto all = o.dense();
    auto shape = all.sizes().vec();
    shape.insert(shape.begin(), s.T + 1);
    shape[1] = s.B;
    x.observed.add(name, {columns(all.view(shape), first, n).flatten(0, 1), {}});
  }
  x.action = columns(s.action, first, n);
  x.mask = columns(s.mask, first, n);
  x.agent_info = columns(s.agent_info, first, n);
  x.env_info = columns(s.env_info, first, n);
  for (const auto& [name, state] : s.initial_state)
    x.initial_state.add(name, state.narrow(0, first, n).clone());
  x.reward = columns(s.reward, first, n);
  x.terminated = columns(s.terminated, first, n);
  x.truncated = columns(s.truncated, first, n);
  x.valid = columns(s.valid, first, n);
  x.steps = x.valid.sum().item<std::int64_t>();
  x.is_first = columns(s.is_first, first, n);
  x.previous_reward = columns(s.previous_reward, first, n);
  x.previous_action = columns(s.previous_action, first, n);
  x.bootstrap_value = s.bootstrap_value.narrow(0, first, n).clone();
  x.final_value = columns(s.final_value, first, n);
  std::vector<std::int64_t> rows;
  for (std::size_t k = 0; k < s.final_obs.t.size(); ++k) {
    if (s.final_obs.b[k] < first || s.final_obs.b[k] >= first + n) continue;
    rows.push_back(static_cast<std::int64_t>(k));
    x.final_obs.t.push_back(s.final_obs.t[k]);
    x.final_obs.b.push_back(s.final_obs.b[k] - first);
  }
  const auto kept = at::tensor(rows, at::kLong);
  for (const auto& [name, o] : select(s.final_obs.observation, kept))
    x.final_obs.observation.add(name, {o.dense().clone(), {}});
  x.final_obs.mask = select(s.final_obs.mask, kept);
  x.final_obs.state = select(s.final_obs.state, kept);
  x.final_obs.value = s.final_obs.value.index_select(0, kept);
  for (const auto& e : batch.episodes)
    if (e.env >= first && e.env < first + n) out.episodes.push_back(e);
  return out;
}

class AsyncTest : public ::testing::TestWithParam<Workforce> {
 protected:
  void expect_what_serial_collects(bool mid_batch_reset, testing::FakeAccelerator* device);
};

// With a constant policy the samples do not depend on the processes and their timing: for each
// rollout and worker they equal those of the serial sampler for these environments.
void AsyncTest::expect_what_serial_collects(bool mid_batch_reset,
                                            testing::FakeAccelerator* device) {
  const int workers = std::get<1>(GetParam());
  const int writers = std::get<0>(GetParam()) == SamplerKind::kParallelCpu ? workers : 1;
  constexpr std::int64_t kT = 7, kB = 6;
  constexpr int kRollouts = 12;  // several times as many as there are slots
  SCOPED_TRACE(!mid_batch_reset ? "resets wait" : "resets at once");
  auto o = serial(kT, kB);
  o.mid_batch_reset = mid_batch_reset;
  o.decorrelation = 5;
  ToyAgent agent(3), actor(3), other(3);
  const auto plain = make_sampler(make_zoo(), other, o);
  employ(o, GetParam());
  std::vector<std::vector<Part>> expected;  // [rollouts][writers]
  const auto n = kB / writers;
  const auto expect_rollouts = [&](std::size_t count) {
    while (expected.size() < count) {
      const auto all = plain->collect();
      auto& parts = expected.emplace_back();
      for (int w = 0; w < writers; ++w) parts.push_back(part_of(all, w * n, n));
    }
  };
  expect_rollouts(kRollouts);
  std::optional<testing::FakeAccelerator::On> on;
  if (device) on.emplace(*device);
  const auto async = make_async_sampler(make_zoo(), agent, actor, o);
  for (int i = 0; i < kRollouts * writers && !HasFailure(); ++i) {
    const auto batch = async->collect();
    const auto rollout = static_cast<std::size_t>(batch.samples.first_tick / kT);
    expect_rollouts(rollout + 1);  // one writer may be ahead of others
    const auto writer = batch.samples.first_env / n;
    SCOPED_TRACE(fmt::format("rollout {} of writer {}", rollout, writer));
    auto& want = expected[rollout].at(static_cast<std::size_t>(writer));
    expect_same_batches({want.samples, want.episodes, batch.infos}, batch);
    want.samples.first_tick = -1;  // it must not come twice
  }
}

TEST_P(AsyncTest, CollectsWhatTheSerialSamplerDoes) {
  for (const bool mid_batch_reset : {true, false})
    expect_what_serial_collects(mid_batch_reset, nullptr);
}

// The thread acts on a device, and the caller reads there; both upload the rows.
TEST_P(AsyncTest, ActsOnADevice) {
  if (std::get<0>(GetParam()) == SamplerKind::kParallelCpu) GTEST_SKIP() << "workers act";
  testing::FakeAccelerator device;
  for (const bool mid_batch_reset : {true, false})
    expect_what_serial_collects(mid_batch_reset, &device);
  EXPECT_GT(device.waits, 0);
  EXPECT_EQ(device.captures, 0);
  EXPECT_EQ(device.pins, 0);
  EXPECT_EQ(device.streams, 0);
}

// An agent that records its parameter: one number, stored many times, so that a torn copy of the
// parameters shows.
class Numbered : public Agent {
 public:
  const AgentSpec& spec() const override { return spec_; }
  void act(const ActIn&, ActOut& out) override {
    const auto* numbers = number_.const_data_ptr<float>();
    for (std::int64_t i = 0; i < number_.numel(); ++i) torn_ |= numbers[i] != numbers[0];
    out.action[0].zero_();
    out.agent_info.at("number").fill_(torn_ ? -1 : numbers[0]);
  }
  void value(const ActIn&, at::Tensor& value) override { value.zero_(); }
  NamedTensors parameters() override { return {{"number", number_}}; }
  void to(at::Device) override {}
  at::Device device() const override { return at::kCPU; }
  void set(double number) { number_.fill_(number); }

 private:
  bool torn_ = false;
  at::Tensor number_ = at::zeros({100'000});
  AgentSpec spec_{.info = {{"number", ArraySpec{}}}, .state = {}};
};

SamplerOptions options_of(const Workforce& force, std::int64_t horizon = 5) {
  SamplerOptions o{.horizon = horizon, .envs = 6};
  employ(o, force);
  return o;
}

// A rollout is collected with one policy from its first step to its last, and records its version.
TEST_P(AsyncTest, EveryRolloutKnowsItsPolicy) {
  Numbered agent, actor;
  const auto sampler = make_async_sampler(make_counter(), agent, actor, options_of(GetParam()));
  std::int64_t newest = 0;
  for (std::int64_t i = 0; i < 100; ++i) {
    agent.set(static_cast<double>(i));
    const auto& s = sampler->collect().samples;
    ASSERT_TRUE(
        s.agent_info.at("number").eq(static_cast<double>(s.policy_version)).all().item<bool>())
        << s.policy_version << ":\n"
        << s.agent_info.at("number");
    ASSERT_EQ(sampler->versions_behind(), i - s.policy_version);
    ASSERT_GE(s.policy_version, 0);
    newest = std::max(newest, s.policy_version);
  }
  EXPECT_GT(newest, 50);
}

TEST_P(AsyncTest, PublishesAsOftenAsAsked) {
  Numbered agent, actor;
  const auto sampler = make_async_sampler(make_counter(), agent, actor, options_of(GetParam()),
                                          {.publish_interval = 10});
  for (int i = 0; i < 60; ++i) {
    agent.set(i);
    const auto& s = sampler->collect().samples;
    ASSERT_EQ(s.policy_version % 10, 0);
    ASSERT_EQ(s.agent_info.at("number")[0][0].item<float>(), s.policy_version);
  }
}

// With a slow learner all slots are full: rollouts with a lag above 1 are dropped, and the reader
// gets recent ones only.
TEST_P(AsyncTest, DropsWhatIsTooOld) {
  Numbered agent, actor;
  const auto sampler =
      make_async_sampler(make_counter(), agent, actor, options_of(GetParam()),
                         {.slots = 6, .max_lag = 1, .stale = StaleRollouts::kDrop});
  for (int i = 0; i < 40; ++i) {
    const auto before = sampler->counts();
    sampler->collect();
    ASSERT_LE(sampler->versions_behind(), 1);
    ASSERT_EQ(sampler->counts().taken, before.taken + 1);
    while (i < 3 &&
           sampler->counts().published - sampler->counts().taken - sampler->counts().dropped < 5) {
    }
  }
  EXPECT_GT(sampler->counts().dropped, 0);
}

// Writers that wait for a slot do not delay the destructor.
TEST_P(AsyncTest, EndsAtOnceWhileItsWritersWait) {
  Numbered agent, actor;
  auto sampler = make_async_sampler(make_counter(), agent, actor, options_of(GetParam()));
  sampler->collect();
  const auto counts = sampler->counts();
  while (sampler->counts().published < counts.taken + 2) {
  }
  const auto before = std::chrono::steady_clock::now();
  sampler.reset();
  EXPECT_LT(std::chrono::steady_clock::now() - before, std::chrono::seconds(1));
}

// Episodes begin anew; ticks (and with them the noise) and versions continue.
TEST_P(AsyncTest, GoesOnFromWhatItSaved) {
  Numbered agent, actor;
  const auto o = options_of(GetParam());
  NamedTensors saved;
  std::int64_t latest = 0, rollouts = 0;
  {
    const auto first = make_async_sampler(make_counter(), agent, actor, o);
    // Until every environment has ended an episode: a writer may be ahead of the others.
    for (std::set<std::int64_t> ended; std::ssize(ended) < o.envs; ++rollouts) {
      const auto batch = first->collect();
      latest = std::max(latest, batch.samples.first_tick + o.horizon);
      for (const auto& episode : batch.episodes) ended.insert(episode.env);
    }
    saved = first->save(false);
  }
  const auto second = make_async_sampler(make_counter(), agent, actor, o, {}, saved);
  agent.set(rollouts);
  const auto batch = second->collect();
  EXPECT_GT(batch.samples.first_tick, latest);
  EXPECT_EQ(batch.samples.policy_version, rollouts);
  EXPECT_TRUE(batch.samples.is_first[0].all().item<bool>());
  ASSERT_FALSE(batch.episodes.empty());
  EXPECT_GT(batch.episodes[0].number, 0);
}

TEST(AsyncOptionsTest, RefusesWhatMakesNoSense) {
  Numbered agent, actor;
  const auto refusal = [&](const SamplerOptions& o, const AsyncOptions& async) {
    return message_of([&] { make_async_sampler(make_counter(), agent, actor, o, async); });
  };
  const SamplerOptions good{.horizon = 5, .envs = 4};
  EXPECT_NE(refusal(good, {.slots = 1}).find("async.slots is 1"), std::string::npos);
  EXPECT_NE(refusal(good, {.publish_interval = 0}).find("publish_interval is 0"),
            std::string::npos);
  EXPECT_NE(
      refusal(
          {.kind = SamplerKind::kSerial, .horizon = 5, .envs = 4, .on_death = OnDeath::kRestart},
          {})
          .find("on_death"),
      std::string::npos);
  EXPECT_NE(refusal({.kind = SamplerKind::kParallelCpu, .horizon = 5, .envs = 5, .workers = 2}, {})
                .find("sampler.envs is 5, which is not divisible by 2 workers"),
            std::string::npos);
  EXPECT_NE(
      refusal(
          {.kind = SamplerKind::kParallelCpu, .horizon = 5, .envs = 4, .workers = 4, .groups = 2},
          {})
          .find("sampler.groups is 2"),
      std::string::npos);
}

// Exceptions of the acting thread are rethrown by collect().
class Failing : public Numbered {
 public:
  void act(const ActIn& in, ActOut& out) override {
    if (++acts_ == 20) throw std::runtime_error("no idea what to do");
    Numbered::act(in, out);
  }

 private:
  int acts_ = 0;
};

TEST(AsyncFailureTest, AnAgentThatThrowsEndsIt) {
  for (const auto kind :
       {SamplerKind::kSerial, SamplerKind::kParallelGpu, SamplerKind::kParallelCpu}) {
    Failing agent, actor;
    const auto sampler = make_async_sampler(make_counter(), agent, actor,
                                            {.kind = kind, .horizon = 5, .envs = 4, .workers = 2});
    std::string text;
    try {
      for (int i = 0; i < 100; ++i) sampler->collect();
    } catch (const std::exception& e) {
      text = e.what();
    }
    EXPECT_NE(text.find("no idea what to do"), std::string::npos) << text;
  }
}

INSTANTIATE_TEST_SUITE_P(Samplers, AsyncTest,
                         ::testing::Values(Workforce{SamplerKind::kSerial, 1, 1},
                                           Workforce{SamplerKind::kSerial, 1, 2},
                                           Workforce{SamplerKind::kParallelGpu, 2, 1},
                                           Workforce{SamplerKind::kParallelGpu, 3, 2},
                                           Workforce{SamplerKind::kParallelGpu, 3, kOwnPace},
                                           Workforce{SamplerKind::kParallelCpu, 1, 1},
                                           Workforce{SamplerKind::kParallelCpu, 3, 2}),
                         workforce_name);

}  // namespace async_test
}  // namespace
}  // namespace shoal
