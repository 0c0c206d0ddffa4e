// Two ranks learn the same as one rank from the same environments in two slices. Threads stand in
// for processes.

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "algos/qpg/qpg_learner.h"
#include "shoal/agents/actor_critic.h"
#include "shoal/algos/a2c.h"
#include "shoal/algos/dqn.h"
#include "shoal/algos/impala.h"
#include "shoal/algos/ppo.h"
#include "shoal/algos/r2d1.h"
#include "shoal/algos/sac.h"
#include "shoal/algos/td3.h"
#include "shoal/core/error.h"
#include "shoal/distributed/process_group.h"
#include "shoal/envs/classic_control.h"
#include "shoal/models/actor_critic.h"
#include "shoal/samplers/sampler.h"
#include "tests/distributed/rendezvous_store.h"
#include "tests/support/message_of.h"
#include "tests/support/picture_control.h"

namespace shoal {
namespace {

using MakeAlgo = std::function<std::unique_ptr<OnPolicyAlgo>(ActorCritic&, ProcessGroup&)>;

constexpr std::int64_t kEnvs = 8, kT = 16;
constexpr int kUpdates = 10;

struct Setting {
  MakeAlgo make_algo;
  ModelOptions model = {.hidden = {16}};
  ActorCriticOptions agent = {};
};

struct Learned {
  NamedTensors parameters;
  std::vector<Metrics> metrics;
};

NamedTensors copies_of(const NamedTensors& tensors) {
  NamedTensors copies;
  for (const auto& [name, tensor] : tensors) copies.add(name, tensor.detach().clone());
  return copies;
}

// The part of a run that one rank does.
Learned learn(std::unique_ptr<ActorCritic> agent, const MakeAlgo& make_algo, ProcessGroup& ranks) {
  const auto make_env = make_cart_pole(30);
  const auto own = kEnvs / ranks.count();
  const auto sampler = make_sampler(make_env, *agent,
                                    {.kind = SamplerKind::kSerial,
                                     .horizon = kT,
                                     .envs = own,
                                     .first_env = own * ranks.rank(),
                                     .seed = 3});
  const auto algo = make_algo(*agent, ranks);
  Learned out;
  for (int i = 0; i < kUpdates; ++i)
    out.metrics.push_back(algo->update(sampler->collect().samples,
                                       {.steps = i * kEnvs * kT, .schedule_steps = 100'000}));
  out.parameters = copies_of(agent->parameters());
  return out;
}

Learned learn(const Setting& setting, ProcessGroup& ranks) {
  return learn(make_actor_critic(make_cart_pole(30)({})->spec(), setting.model, setting.agent,
                                 /*seed=*/5),
               setting.make_algo, ranks);
}

using Learn = std::function<Learned(ProcessGroup&)>;

std::vector<Learned> learn_by_ranks(const Learn& learn, int count) {
  std::vector<Learned> all(static_cast<std::size_t>(count));
  const auto said = testing::in_ranks(count, [&](ProcessGroup& ranks) {
    all[static_cast<std::size_t>(ranks.rank())] = learn(ranks);
  });
  for (const auto& text : said) EXPECT_EQ(text, "");
  return all;
}

// Runs the ranks, each in its own thread.
std::vector<Learned> learn_over_tcp(const Learn& learn, int count) {
  const testing::RendezvousStore place;
  std::vector<Learned> all(static_cast<std::size_t>(count));
  const auto said = testing::in_threads(count, [&](int r) {
    const auto ranks = make_tcp_group(place.options(r, count));
    all[static_cast<std::size_t>(r)] = learn(*ranks);
  });
  for (const auto& text : said) EXPECT_EQ(text, "");
  return all;
}

void expect_the_same(const Learn& learn, int ranks) {
  const auto one = learn(group_of_one());
  const auto all = learn_by_ranks(learn, ranks);
  for (const auto& [name, tensor] : one.parameters) {
    const auto of_rank_0 = all[0].parameters.at(name);
    EXPECT_LT((tensor - of_rank_0).abs().max().item<double>(), 1e-5) << name;
    for (const auto& other : all)
      EXPECT_TRUE(at::equal(of_rank_0, other.parameters.at(name)))
          << name << ": ranks differ from one another";
  }
  for (int i = 0; i < kUpdates; ++i) {
    const auto& expected = one.metrics[static_cast<std::size_t>(i)];
    const auto& found = all[0].metrics[static_cast<std::size_t>(i)];
    for (std::size_t k = 0; k < expected.size(); ++k)
      EXPECT_NEAR(found[k].second, expected[k].second, 1e-3 * (1 + std::abs(expected[k].second)))
          << expected[k].first << ", update " << i;
  }
}

void expect_the_same(const Setting& setting, int ranks) {
  expect_the_same([&](ProcessGroup& r) { return learn(setting, r); }, ranks);
}

MakeAlgo ppo(PpoOptions options) {
  options.epochs = 2;
  options.minibatches = 2;
  options.slices = 2;
  options.learning_rate = 1e-3;
  return [options](ActorCritic& agent, ProcessGroup& ranks) {
    return make_ppo(agent, options, ranks);
  };
}

TEST(RanksLearningTest, PpoOfTwoRanksIsThatOfTwoSlices) { expect_the_same({ppo({})}, 2); }

TEST(RanksLearningTest, PpoThatNormalizesWholeRollouts) {
  expect_the_same({ppo({.normalize_advantage = NormalizeAdvantage::kRollout})}, 2);
}

TEST(RanksLearningTest, PpoThatStopsPassesByTheDivergence) {
  expect_the_same({ppo({.target_kl = 1e-4})}, 2);
}

TEST(RanksLearningTest, PpoWithVtrace) { expect_the_same({ppo({.vtrace = true})}, 2); }

TEST(RanksLearningTest, PpoWithMemory) {
  expect_the_same({ppo({}), {.hidden = {16}, .memory = MemoryKind::kLstm, .memory_size = 8}}, 2);
}

TEST(RanksLearningTest, PpoThatNormalizesObservations) {
  expect_the_same({ppo({}), {.hidden = {16}}, {.normalize_observation = true}}, 2);
}

// Pieces of other sizes: seven of 32 steps, three of 4 environments.
TEST(RanksLearningTest, GradientsFoundInPiecesAreThoseOfTheWhole) {
  const auto pieces = [](PpoOptions options, int count) {
    options.gradient_accumulation = count;
    return ppo(options);
  };
  const ModelOptions memory = {.hidden = {16}, .memory = MemoryKind::kLstm, .memory_size = 8};
  const auto a2c = [](int count) -> MakeAlgo {
    return [count](ActorCritic& agent, ProcessGroup& ranks) {
      return make_a2c(agent, {.gradient_accumulation = count}, ranks);
    };
  };
  const auto close = [](const Setting& whole, const Setting& in_pieces) {
    const auto expected = learn(whole, group_of_one());
    for (const auto& found :
         {learn(in_pieces, group_of_one()),
          learn_by_ranks([&](ProcessGroup& r) { return learn(in_pieces, r); }, 2).front()}) {
      for (const auto& [name, tensor] : expected.parameters)
        EXPECT_LT((tensor - found.parameters.at(name)).abs().max().item<double>(), 1e-5) << name;
      for (std::size_t k = 0; k < expected.metrics.back().size(); ++k)
        EXPECT_NEAR(found.metrics.back()[k].second, expected.metrics.back()[k].second, 1e-3)
            << expected.metrics.back()[k].first;
    }
  };
  close({pieces({}, 1)}, {pieces({}, 7)});
  close({pieces({.normalize_advantage = NormalizeAdvantage::kRollout}, 1)},
        {pieces({.normalize_advantage = NormalizeAdvantage::kRollout}, 3)});
  close({pieces({}, 1), memory}, {pieces({}, 3), memory});
  const PpoOptions corrected{.normalize_advantage = NormalizeAdvantage::kNone, .vtrace = true};
  close({pieces(corrected, 1)}, {pieces(corrected, 2)});
  close({a2c(1)}, {a2c(5)});
}

void expect_equal(const NamedTensors& found, const NamedTensors& expected) {
  for (const auto& [name, tensor] : expected)
    EXPECT_TRUE(at::equal(found.at(name), tensor)) << name;
}

// Large enough for gradients to be summed while others are still being computed.
const ModelOptions kLarge = {.hidden = {600, 600}};

TEST(RanksLearningTest, GradientsSummedDuringBackwardAreThoseSummedAfterIt) {
  const auto learn_large = [](ProcessGroup& r) { return learn({ppo({}), kLarge}, r); };
  const auto after = learn_by_ranks(learn_large, 2);
  const auto during = learn_over_tcp(learn_large, 2);
  for (const auto& rank : during) expect_equal(rank.parameters, after[0].parameters);
  for (std::size_t i = 0; i < after[0].metrics.size(); ++i)
    EXPECT_EQ(during[0].metrics[i], after[0].metrics[i]);
}

// With an unused layer among the others.
class IdleLayerModel : public ActorCriticModel {
 public:
  IdleLayerModel()
      : first_(register_module("first", torch::nn::Linear(4, 700))),
        idle_(register_module("idle", torch::nn::Linear(700, 700))),
        last_(register_module("last", torch::nn::Linear(700, 3))) {}
  ModelOut forward(const ModelIn& in) override {
    const auto out = last_(at::tanh(first_(in.observation[0].dense())));
    return {.policy = out.narrow(1, 0, 2), .value = out.select(1, 2), .state = {}};
  }

 private:
  torch::nn::Linear first_, idle_, last_;
};

TEST(RanksLearningTest, AParameterWithoutGradientIsWaitedForByNobody) {
  register_model("idle-layer", [](const auto&, auto, const auto&) {
    torch::manual_seed(1);
    return std::make_shared<IdleLayerModel>();
  });
  static std::mutex seeds;  // the generator is that of all threads
  const auto learn_idle = [](ProcessGroup& r) {
    std::unique_ptr<ActorCritic> agent;
    {
      const std::lock_guard lock(seeds);
      agent = make_actor_critic(make_cart_pole(30)({})->spec(), {.name = "idle-layer"}, {}, 1);
    }
    return learn(std::move(agent), ppo({}), r);
  };
  const auto after = learn_by_ranks(learn_idle, 2), during = learn_over_tcp(learn_idle, 2);
  expect_equal(during[0].parameters, after[0].parameters);
  expect_equal(during[1].parameters, after[0].parameters);
}

class BatchNormModel : public ActorCriticModel {
 public:
  BatchNormModel() { register_module("norm", torch::nn::BatchNorm1d(4)); }
  ModelOut forward(const ModelIn& in) override {
    return {.policy = in.observation[0].dense(),
            .value = in.observation[0].dense().sum(1),
            .state = {}};
  }
};

TEST(RanksLearningTest, BatchNormalizationIsRefused) {
  register_model("batch-norm",
                 [](const auto&, auto, const auto&) { return std::make_shared<BatchNormModel>(); });
  const auto make = [](ProcessGroup& ranks) {
    const auto agent =
        make_actor_critic(make_cart_pole(30)({})->spec(), {.name = "batch-norm"}, {}, 1);
    ppo({})(*agent, ranks);
    return Learned{};
  };
  EXPECT_NO_THROW(make(group_of_one()));
  const auto refused = [&](ProcessGroup& ranks) {
    const auto message = message_of([&] { make(ranks); });
    EXPECT_NE(message.find("batch normalization (norm.running_mean)"), message.npos) << message;
    return Learned{};
  };
  learn_by_ranks(refused, 2);
}

TEST(RanksLearningTest, A2cOfFourRanks) {
  expect_the_same({[](ActorCritic& agent, ProcessGroup& ranks) {
                    return make_a2c(agent, {.normalize_advantage = true}, ranks);
                  }},
                  4);
}

std::unique_ptr<OnPolicyAlgo> impala(ActorCritic& agent, ProcessGroup& ranks) {
  return make_impala(agent, {}, ranks);
}

TEST(RanksLearningTest, Impala) { expect_the_same({impala}, 2); }

// As if all of its workers had died.
TEST(RanksLearningTest, ARankWithoutStepsLearnsWhatTheOthersDo) {
  const auto make_agent = [] {
    return make_actor_critic(make_cart_pole(30)({})->spec(), {.hidden = {16}}, {}, /*seed=*/5);
  };
  const auto learn_from_others = [&](const MakeAlgo& make_algo, ProcessGroup& ranks) {
    const auto agent = make_agent();
    const auto sampler = make_sampler(make_cart_pole(30), *agent,
                                      {.kind = SamplerKind::kSerial, .horizon = kT, .envs = 4});
    auto samples = sampler->collect().samples;
    if (ranks.rank() == 1) {
      samples.valid = at::zeros_like(samples.valid);
      samples.steps = 0;
    }
    make_algo(*agent, ranks)->update(samples, {.schedule_steps = 1000});
    return Learned{.parameters = copies_of(agent->parameters()), .metrics = {}};
  };
  for (const auto& make_algo : {ppo({}), ppo({.vtrace = true}), MakeAlgo(impala)}) {
    const auto all =
        learn_by_ranks([&](ProcessGroup& ranks) { return learn_from_others(make_algo, ranks); }, 2);
    expect_equal(all[1].parameters, all[0].parameters);
    const auto [name, before] = *make_agent()->parameters().begin();
    EXPECT_FALSE(at::equal(all[0].parameters.at(name), before));
  }
}

template <class AgentKind, class AnyReplay>
using MakeOffPolicy =
    std::function<std::unique_ptr<OffPolicyAlgo>(AgentKind&, AnyReplay&, ProcessGroup&)>;

constexpr std::int64_t kSize = 2048;  // of all ranks' replays

template <class AgentKind, class AnyReplay>
Learned learn_from(AnyReplay& replay, const EnvFactory& make_env, AgentKind& agent,
                   ProcessGroup& ranks, const MakeOffPolicy<AgentKind, AnyReplay>& make) {
  const auto own = kEnvs / ranks.count();
  const auto sampler = make_sampler(make_env, agent,
                                    {.kind = SamplerKind::kSerial,
                                     .horizon = kT,
                                     .envs = own,
                                     .first_env = own * ranks.rank(),
                                     .seed = 3});
  const auto algo = make(agent, replay, ranks);
  Learned out;
  for (int i = 0; i < kUpdates; ++i) {
    const Progress progress{.steps = i * kEnvs * kT, .schedule_steps = 2000};
    algo->explore(progress, i > 0);
    replay.append(sampler->collect().samples);
    out.metrics.push_back(algo->update(progress, 1));
  }
  out.parameters = copies_of(agent.parameters());
  return out;
}

// From a replay of this rank's share of two slices.
template <class AgentKind>
Learned learn_from_replay(const EnvFactory& make_env, AgentKind& agent, StepReplayOptions options,
                          ProcessGroup& ranks, const MakeOffPolicy<AgentKind, StepReplay>& make) {
  constexpr int kSlices = 2;
  options.size = kSize / ranks.count();
  options.slices = kSlices / ranks.count();
  options.first_slice = ranks.rank() * options.slices;
  StepReplay replay(make_env({})->spec(), kEnvs / ranks.count(), options);
  return learn_from(replay, make_env, agent, ranks, make);
}

void expect_same_dqn(const DqnOptions& options, const QAgentOptions& kind,
                     const StepReplayOptions& replay) {
  const auto make_env = make_cart_pole(30);
  expect_the_same(
      [&](ProcessGroup& ranks) {
        const auto agent = make_q_agent(make_env({})->spec(), {.hidden = {16}}, kind, 5);
        return learn_from_replay<QAgent>(make_env, *agent, replay, ranks,
                                         [&](QAgent& a, StepReplay& r, ProcessGroup& all) {
                                           return make_dqn(a, r, options, all);
                                         });
      },
      2);
}

TEST(RanksLearningTest, Dqn) {
  expect_same_dqn({.batch = 32, .target_interval = 3}, {}, {.n_step = 3});
}

TEST(RanksLearningTest, DqnByPriorityWithNoisyLayers) {
  expect_same_dqn({.batch = 32}, {.noisy = true}, {.prioritized = true});
}

void expect_same_control(bool stochastic, const StepReplayOptions& replay,
                         const std::function<std::unique_ptr<OffPolicyAlgo>(QpgAgent&, StepReplay&,
                                                                            ProcessGroup&)>& make) {
  const auto make_env = make_pendulum(30);
  expect_the_same(
      [&](ProcessGroup& ranks) {
        const auto agent =
            make_qpg_agent(make_env({})->spec(), {.stochastic = stochastic, .hidden = {32, 32}}, 5);
        return learn_from_replay<QpgAgent>(make_env, *agent, replay, ranks, make);
      },
      2);
}

TEST(RanksLearningTest, Sac) {
  expect_same_control(true, {}, [](QpgAgent& a, StepReplay& r, ProcessGroup& ranks) {
    return make_sac(a, r, {.batch = 64}, ranks);
  });
}

// Shares that fill no panel of the fused networks.
TEST(RanksLearningTest, SacByPriorityInSmallShares) {
  expect_same_control(true, {.prioritized = true},
                      [](QpgAgent& a, StepReplay& r, ProcessGroup& ranks) {
                        return make_sac(a, r, {.batch = 42}, ranks);
                      });
}

TEST(RanksLearningTest, Td3) {
  expect_same_control(false, {.n_step = 2}, [](QpgAgent& a, StepReplay& r, ProcessGroup& ranks) {
    return make_td3(a, r, {.batch = 64}, ranks);
  });
}

TEST(RanksLearningTest, SacFromPictures) {
  const auto make_env = testing::make_bright_column(36);
  expect_the_same(
      [&](ProcessGroup& ranks) {
        const auto agent = make_qpg_agent(make_env({})->spec(), {.name = "nature-cnn"}, {}, 5);
        return learn_from_replay<QpgAgent>(
            make_env, *agent, {}, ranks, [](QpgAgent& a, StepReplay& r, ProcessGroup& all) {
              return make_sac(a, r, {.learning_rate = 1e-4, .batch = 16}, all);
            });
      },
      2);
}

std::unique_ptr<StepReplay> replay_of_all(const EnvSpec& spec, const StepReplayOptions& options,
                                          ProcessGroup& ranks, const ReplayMemory& memory) {
  return ranks.count() == 1 ? std::make_unique<StepReplay>(spec, kEnvs, options)
                            : std::make_unique<StepReplay>(spec, kEnvs, options, ranks, memory);
}

// Two ranks that share a replay learn the same as one rank, without slices.
void expect_same_dqn_of_one_replay(const DqnOptions& options, StepReplayOptions replay) {
  replay.size = kSize;
  const auto make_env = make_cart_pole(30);
  const ReplayMemory memory;
  expect_the_same(
      [&](ProcessGroup& ranks) {
        const auto spec = make_env({})->spec();
        const auto agent = make_q_agent(spec, {.hidden = {16}}, {}, 5);
        const auto own = replay_of_all(spec, replay, ranks, memory);
        return learn_from<QAgent, StepReplay>(*own, make_env, *agent, ranks,
                                              [&](QAgent& a, StepReplay& r, ProcessGroup& all) {
                                                return make_dqn(a, r, options, all);
                                              });
      },
      2);
}

TEST(RanksLearningTest, DqnFromOneReplay) {
  expect_same_dqn_of_one_replay({.batch = 32, .target_interval = 3}, {.n_step = 3});
}

TEST(RanksLearningTest, DqnByPriorityFromOneReplay) {
  expect_same_dqn_of_one_replay({.batch = 32}, {.prioritized = true});
}

// With the noise of its steps in the whole batch.
TEST(RanksLearningTest, SacFromOneReplay) {
  const StepReplayOptions replay{.size = kSize, .prioritized = true};
  const auto make_env = make_pendulum(30);
  const ReplayMemory memory;
  expect_the_same(
      [&](ProcessGroup& ranks) {
        const auto spec = make_env({})->spec();
        const auto agent = make_qpg_agent(spec, {.stochastic = true, .hidden = {32, 32}}, 5);
        const auto own = replay_of_all(spec, replay, ranks, memory);
        return learn_from<QpgAgent, StepReplay>(*own, make_env, *agent, ranks,
                                                [](QpgAgent& a, StepReplay& r, ProcessGroup& all) {
                                                  return make_sac(a, r, {.batch = 42}, all);
                                                });
      },
      2);
}

TEST(RanksLearningTest, R2d1FromOneReplay) {
  const SequenceReplayOptions replay{
      .size = kSize, .burn_in = 4, .length = 8, .interval = kT, .n_step = 2};
  const auto make_env = make_cart_pole(30);
  const ReplayMemory memory;
  expect_the_same(
      [&](ProcessGroup& ranks) {
        const auto spec = make_env({})->spec();
        const auto agent = make_recurrent_q_agent(
            spec, {.hidden = {16}, .memory = MemoryKind::kGru, .memory_size = 8}, {}, 5);
        const auto& state = agent->spec().state;
        const auto own =
            ranks.count() == 1
                ? std::make_unique<SequenceReplay>(spec, state, kEnvs, replay)
                : std::make_unique<SequenceReplay>(spec, state, kEnvs, replay, ranks, memory);
        return learn_from<RecurrentQAgent, SequenceReplay>(
            *own, make_env, *agent, ranks,
            [&](RecurrentQAgent& a, SequenceReplay& r, ProcessGroup& all) {
              return make_r2d1(a, r, {.batch = 8}, all);
            });
      },
      2);
}

TEST(RanksLearningTest, SlicesHaveNoiseOfTheirOwn) {
  constexpr std::int64_t kRows = 64, kDims = 3;
  const auto noise = at::empty({qpg_noise_size(kRows, kDims)});
  qpg_noise({.slices = 2}, false, kRows, kDims, noise.data_ptr<float>());
  const auto halves = noise.narrow(0, 0, kRows * kDims).chunk(2);
  EXPECT_FALSE(at::equal(halves[0], halves[1]));
}

TEST(RanksLearningTest, SlicesThatCannotBeSharedAreRefused) {
  const auto agent = make_actor_critic(make_cart_pole()({})->spec(), {.hidden = {16}}, {}, 1);
  EXPECT_NE(message_of([&] { make_ppo(*agent, {.slices = -1}); }).find("ppo.slices: found -1"),
            std::string::npos);
  const auto make_env = make_cart_pole();
  const auto q = make_q_agent(make_env({})->spec(), {.hidden = {16}}, {}, 1);
  StepReplay replay(make_env({})->spec(), 4, {.size = 400, .slices = 2});
  EXPECT_NE(message_of([&] { make_dqn(*q, replay, {.batch = 33}); }).find("dqn.batch: found 33"),
            std::string::npos);
  EXPECT_THROW(StepReplay(make_env({})->spec(), 5, {.size = 400, .slices = 2}), Error);
}

}  // namespace
}  // namespace shoal
