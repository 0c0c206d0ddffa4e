#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <atomic>
#include <csignal>
#include <cstdint>
#include <memory>
#include <vector>

#include "shoal/agents/actor_critic.h"
#include "shoal/envs/check_env.h"
#include "shoal/envs/classic_control.h"
#include "shoal/envs/wrappers.h"
#include "shoal/samplers/async_sampler.h"
#include "shoal/samplers/vector_env.h"
#include "tests/samplers/expect_samples.h"
#include "tests/support/batch_of.h"
#include "tests/support/message_of.h"
#include "tests/support/toy_agents.h"
#include "tests/support/toy_envs.h"

// Environments that are stepped as a batch give the samples of the same ones stepped one by one.
namespace shoal {
namespace {

using testing::make_batch_of;
using testing::make_cart_poles;
using testing::make_counter;
using testing::make_gestures;
using testing::make_zoo;
using testing::ToyAgent;

std::vector<float> column(const at::Tensor& t) {
  const auto values = t.to(at::kFloat).contiguous();
  return {values.const_data_ptr<float>(), values.const_data_ptr<float>() + values.numel()};
}

class BatchTest : public ::testing::TestWithParam<Workforce> {
 protected:
  static SamplerOptions options(std::int64_t horizon, std::int64_t envs) {
    auto o = serial(horizon, envs);
    employ(o, GetParam());
    return o;
  }
  // one: stepped serially; other: by the samplers of this test.
  static void expect_same(const EnvFactory& one, const EnvFactory& other, Agent& a, Agent& b) {
    const auto x = make_sampler(one, a, serial(7, 6)), y = make_sampler(other, b, options(7, 6));
    for (int i = 0; i < 5 && !HasFailure(); ++i) expect_same_batches(x->collect(), y->collect());
  }
};

TEST_P(BatchTest, DictionariesMasksStacksAndState) {
  ToyAgent a(3), b(3);
  expect_same(make_zoo(), make_batch_of(make_zoo()), a, b);
}

TEST_P(BatchTest, EveryKindOfAction) {
  const auto spec = make_gestures()({})->spec();
  const auto a = make_actor_critic(spec, ModelOptions{}, {}, 3),
             b = make_actor_critic(spec, ModelOptions{}, {}, 3);
  expect_same(make_gestures(), make_batch_of(make_gestures()), *a, *b);
}

TEST_P(BatchTest, CartPoles) {
  const auto spec = make_cart_pole()({})->spec();
  const auto a = make_actor_critic(spec, ModelOptions{}, {}, 3),
             b = make_actor_critic(spec, ModelOptions{}, {}, 3);
  const auto one = make_sampler(make_cart_pole(), *a, serial(64, 9)),
             other = make_sampler(make_cart_poles(), *b, options(64, 9));
  for (int i = 0; i < 3 && !HasFailure(); ++i)
    expect_same_batches(one->collect(), other->collect());
}

// Every environment of the batch is wrapped on its own.
TEST_P(BatchTest, Wrapped) {
  ToyAgent a(3), b(3);
  const auto wrapped = [](const EnvFactory& make_env) {
    return with_normalized_reward(with_scaled_reward(make_env, 3));
  };
  expect_same(wrapped(make_zoo()), wrapped(make_batch_of(make_zoo())), a, b);
}

TEST_P(BatchTest, ResumesExactly) {
  ToyAgent a(3), b(3), c(3);
  const auto o = options(6, 5);
  const auto plain = make_sampler(make_zoo(), a, o),
             saving = make_sampler(make_batch_of(make_zoo()), b, o);
  for (int i = 0; i < 3; ++i) plain->collect(), saving->collect();
  const auto resumed = make_sampler(make_batch_of(make_zoo()), c, serial(6, 5), saving->save(true));
  for (int i = 0; i < 3 && !HasFailure(); ++i) {
    const auto want = plain->collect();
    expect_same_batches(want, saving->collect());
    expect_same_batches(want, resumed->collect());
  }
}

// A batch that waits between episodes cannot be saved either.
TEST_P(BatchTest, WithoutSaveNewEpisodesBegin) {
  for (const bool waits : {false, true}) {
    const auto make_env = make_batch_of(make_counter({.length = 3}), {.waits = waits});
    ToyAgent a(2), b(2);
    const auto saving = make_sampler(make_env, a, options(3, 4));
    saving->collect();
    const auto saved = saving->save(true);
    EXPECT_EQ(saved.at("env/3").numel(), 0);
    const auto resumed = make_sampler(make_env, b, options(3, 4), saved);
    for (auto* sampler : {saving.get(), resumed.get()}) {
      const auto& s = sampler->collect().samples;
      EXPECT_TRUE(s.is_first[0].all().item<bool>());
      EXPECT_TRUE(s.valid.all().item<bool>());
      EXPECT_EQ(column(s.observation[0].select(2, 0).select(1, 3)),
                (waits ? std::vector<float>{3000, 3001, 3002, 0}
                       : std::vector<float>{3000, 3001, 3002, 3000}));
    }
  }
}

// The step behind the end of an episode is not valid, also where it begins or ends a rollout.
TEST_P(BatchTest, WaitsForTheNextEpisode) {
  for (const bool wrapped : {false, true}) {
    for (const std::int64_t T : {3, 4, 5}) {
      SCOPED_TRACE(fmt::format("{} steps, wrapped {}", T, wrapped));
      ToyAgent agent(2);
      auto make_env =
          make_batch_of(make_counter({.length = 3, .truncates = true}), {.waits = true});
      if (wrapped) make_env = with_scaled_reward(make_env, 1);
      const auto sampler = make_sampler(make_env, agent, options(T, 5));
      std::int64_t tick = 0, episodes = 0;
      for (int rollout = 0; rollout < 7; ++rollout) {
        const auto batch = sampler->collect();
        const auto& s = batch.samples;
        std::int64_t steps = 0, ends = 0;
        for (std::int64_t t = 0; t < T; ++t, ++tick) {
          const auto now = tick % 4;  // 3: between two episodes
          const auto number = static_cast<float>(tick / 4);
          const bool valid = now < 3;
          EXPECT_EQ(column(s.valid[t]), std::vector<float>(5, valid ? 1.0F : 0.0F)) << t;
          EXPECT_EQ(column(s.is_first[t]),
                    std::vector<float>(5, now == 0 || now == 3 ? 1.0F : 0.0F))
              << t;
          EXPECT_EQ(column(s.truncated[t]), std::vector<float>(5, now == 2 ? 1.0F : 0.0F)) << t;
          EXPECT_FALSE(s.terminated[t].any().item<bool>());
          const auto seen = column(s.observation[0][t][4]);
          EXPECT_EQ(seen, (valid ? std::vector<float>{4000.0F + static_cast<float>(now), number}
                                 : std::vector<float>{0, 0}))
              << t;
          EXPECT_TRUE(valid || !s.reward[t].any().item<bool>());
          if (now == 2) {
            EXPECT_EQ(s.final_obs.t[static_cast<std::size_t>(ends)], t);
            EXPECT_EQ(column(s.final_obs.observation[0].dense()[ends + 4]),
                      (std::vector<float>{4003, number}));
            ends += 5;
          }
          steps += valid ? 5 : 0;
        }
        EXPECT_EQ(s.steps, steps);
        EXPECT_EQ(s.final_obs.size(), ends);
        for (const auto& episode : batch.episodes) EXPECT_EQ(episode.length, 3);
        EXPECT_EQ(std::ssize(batch.episodes), ends);
        episodes += ends;
      }
      EXPECT_GT(episodes, 0);
    }
  }
}

TEST_P(BatchTest, WaitingBatchesAreEqualInEverySampler) {
  ToyAgent a(3), b(3);
  const auto make_env = make_batch_of(make_zoo(), {.waits = true});
  expect_same(make_env, make_env, a, b);
}

INSTANTIATE_TEST_SUITE_P(Serial, BatchTest,
                         ::testing::Values(Workforce(SamplerKind::kSerial, 0, 1),
                                           Workforce(SamplerKind::kSerial, 0, 2)),
                         workforce_name);
INSTANTIATE_TEST_SUITE_P(Workers, BatchTest,
                         ::testing::Combine(::testing::Values(SamplerKind::kParallelCpu,
                                                              SamplerKind::kParallelGpu),
                                            ::testing::Values(1, 3), ::testing::Values(1, 2)),
                         workforce_name);
INSTANTIATE_TEST_SUITE_P(OwnPace, BatchTest,
                         ::testing::Values(Workforce(SamplerKind::kParallelGpu, 2, kOwnPace)),
                         workforce_name);

TEST(AsyncBatchTest, WaitsForTheNextEpisode) {
  for (const auto kind : {SamplerKind::kSerial, SamplerKind::kParallelCpu}) {
    ToyAgent agent(2), actor(2);
    const auto make_env =
        make_batch_of(make_counter({.length = 3, .truncates = true}), {.waits = true});
    const auto sampler = make_async_sampler(
        make_env, agent, actor, {.kind = kind, .horizon = 3, .envs = 2, .workers = 1}, {});
    for (int rollout = 0; rollout < 8; ++rollout) {
      const auto& s = sampler->collect().samples;
      for (std::int64_t t = 0; t < 3; ++t) {
        const auto now = (s.first_tick + t) % 4;
        EXPECT_EQ(column(s.valid[t]), std::vector<float>(2, now < 3 ? 1.0F : 0.0F));
        EXPECT_EQ(s.observation[0][t][1][0].item<float>(),
                  now < 3 ? 1000.0F + static_cast<float>(now) : 0);
      }
    }
  }
}

TEST(BatchErrorTest, TheEnvironmentIsNamedIfItIsKnown) {
  const auto unlucky = [](const EnvContext& c) {
    return std::make_unique<testing::Unlucky>(c, testing::Mishap::kThrow, 5, 12);
  };
  ToyAgent agent(2);
  const auto sampler = make_sampler(make_batch_of(unlucky), agent, parallel(20, 8, 2));
  try {
    sampler->collect();
    FAIL() << "nothing was thrown";
  } catch (const WorkerError& e) {
    EXPECT_EQ(e.env, 5);
    EXPECT_EQ(e.step, 11);
    EXPECT_NE(std::string(e.what()).find("the wheel came off"), std::string::npos) << e.what();
  }
}

TEST(BatchErrorTest, OtherwiseTheBatchIs) {
  const auto make_env = make_batch_of([](const EnvContext& c) {
    struct Odd : testing::Counter {
      using Counter::Counter;
      StepResult step(ArraysIn, StepOut) override { throw std::runtime_error("out of fuel"); }
    };
    return std::make_unique<Odd>(c, testing::CounterOptions{});
  });
  ToyAgent agent(2);
  const auto text = message_of<WorkerError>(
      [&] { make_sampler(make_env, agent, parallel(20, 8, 2))->collect(); });
  EXPECT_NE(text.find("out of fuel (one of the environments "), std::string::npos) << text;
}

// A worker that dies loses its whole batch, which begins anew with the next rollout.
TEST(BatchDeathTest, ABatchIsRestarted) {
  auto* kills =
      static_cast<std::atomic<int>*>(mmap(nullptr, sizeof(std::atomic<int>), PROT_READ | PROT_WRITE,
                                          MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  const auto make_env = make_batch_of([kills](const EnvContext& c) {
    struct Mortal : testing::Counter {
      Mortal(const EnvContext& c, std::atomic<int>* all)
          : Counter(c, {.length = 7}), dies(c.index == 5), deaths(all) {}
      StepResult step(ArraysIn action, StepOut out) override {
        if (dies && ++steps == 12 && deaths->fetch_add(1) == 0) std::raise(SIGKILL);
        return Counter::step(action, out);
      }
      bool dies;
      std::atomic<int>* deaths;
      int steps = 0;
    };
    return std::make_unique<Mortal>(c, kills);
  });
  for (const bool wrapped : {false, true}) {
    *kills = 0;
    ToyAgent agent(2);
    auto o = parallel(5, 8, 2);
    o.on_death = OnDeath::kRestart;
    ::testing::internal::CaptureStderr();
    const auto sampler =
        make_sampler(wrapped ? with_scaled_reward(make_env, 1) : make_env, agent, o);
    int deaths = 0;
    bool anew = false;
    for (int rollout = 0; rollout < 6; ++rollout) {
      const auto& s = sampler->collect().samples;
      const bool died = !s.valid.all().item<bool>();
      EXPECT_TRUE(s.valid.narrow(1, 0, 4).all().item<bool>());
      EXPECT_TRUE(!anew || s.is_first[0].narrow(0, 4, 4).all().item<bool>());
      if (died) {
        EXPECT_EQ(column(s.valid.select(1, 5)), (std::vector<float>{1, 0, 0, 0, 0}));
        EXPECT_EQ(column(s.truncated.select(1, 7)), (std::vector<float>{0, 1, 0, 0, 0}));
      }
      deaths += died;
      anew = died;
    }
    EXPECT_NE(::testing::internal::GetCapturedStderr().find("it is restarted"), std::string::npos);
    EXPECT_EQ(deaths, 1);
  }
  munmap(kills, sizeof(*kills));
}

TEST(BatchRulesTest, WhatABatchCannotDoIsRefused) {
  ToyAgent agent(2);
  const auto batch = make_batch_of(make_counter(), {.multiple = 2});
  const auto refusal = [&](SamplerOptions o) {
    return message_of([&] { make_sampler(batch, agent, o); });
  };
  auto o = serial(4, 4);
  o.mid_batch_reset = false;
  EXPECT_EQ(refusal(o),
            "Counter: found sampler.mid_batch_reset = false, but its environments are stepped in "
            "batches; set it to true");
  o = serial(4, 4);
  o.decorrelation = 3;
  EXPECT_EQ(refusal(o),
            "Counter: found sampler.decorrelation, but its environments are stepped in batches; "
            "set it to 0");
  EXPECT_EQ(refusal(parallel(4, 6, 2)),
            "Counter: found 3 environments to be stepped together, expected a multiple of 2; "
            "choose sampler.envs, workers and groups so that every worker has such a number");
  EXPECT_EQ(message_of([&] { batch({})->reset(1, {}); }),
            "Counter: found a batch of 1, expected a multiple of 2 environments, which are stepped "
            "together");
  const auto wrapped = [&](const EnvFactory& make_env) {
    return message_of([&] { make_sampler(make_env, agent, serial(4, 4))->collect(); });
  };
  EXPECT_NE(wrapped(with_time_limit(make_cart_poles(), 2)).find("such as env.time_limit"),
            std::string::npos);
  EXPECT_NE(wrapped(with_action_repeat(make_cart_poles(), 2)).find("such as env.action_repeat"),
            std::string::npos);
}

TEST(AloneTest, ABatchOfOneIsAnEnvironment) {
  for (const bool waits : {false, true})
    EXPECT_EQ(check_env(make_batch_of(make_zoo(), {.waits = waits}), {.steps = 200}),
              std::vector<std::string>());
  EXPECT_EQ(check_env(make_cart_poles(), {.steps = 200}), std::vector<std::string>());
  EXPECT_EQ(check_env(with_time_limit(make_cart_poles(), 5), {.steps = 200}),
            std::vector<std::string>());
}

TEST(AloneTest, PythonChoosesTheActionsOfBatchesOfOne) {
  const auto batch = make_batch_of(make_counter({.length = 2}));
  const auto env = make_vector_env(batch, {.envs = 2, .seeds = {1, 2}, .next_step = true});
  std::vector<bool> ends;
  for (int i = 0; i < 4; ++i) {
    env->rows().action[0].zero_();
    env->start();
    env->finish();
    ends.push_back(env->rows().terminated[env->row() - 1][1].item<bool>());
  }
  EXPECT_EQ(ends, (std::vector<bool>{false, true, false, false}));
  const std::vector<std::int64_t> envs{0, 1};
  const std::vector<std::optional<std::uint64_t>> one_seed{7};
  EXPECT_THROW(env->reset(envs, one_seed), Error);
}

}  // namespace
}  // namespace shoal
