// Two ranks learn what one rank learns from the same environments in two slices. Threads stand in
// for processes.

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <array>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "shoal/agents/actor_critic.h"
#include "shoal/algos/a2c.h"
#include "shoal/algos/impala.h"
#include "shoal/algos/ppo.h"
#include "shoal/core/error.h"
#include "shoal/envs/classic_control.h"
#include "shoal/samplers/sampler.h"
#include "shoal/sync/ranks.h"
#include "tests/support/message_of.h"

namespace shoal {
namespace {

using namespace std::chrono_literals;
using MakeAlgo = std::function<std::unique_ptr<OnPolicyAlgo>(ActorCritic&, Ranks&)>;

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

// The part of a run that one rank does.
Learned learn(const Setting& setting, Ranks& ranks) {
  const auto make_env = make_cart_pole(30);
  const auto own = kEnvs / ranks.count();
  const auto agent =
      make_actor_critic(make_env({})->spec(), setting.model, setting.agent, /*seed=*/5);
  const auto sampler = make_sampler(make_env, *agent,
                                    {.kind = SamplerKind::kSerial,
                                     .horizon = kT,
                                     .envs = own,
                                     .first_env = own * ranks.rank(),
                                     .seed = 3});
  const auto algo = setting.make_algo(*agent, ranks);
  Learned out;
  for (int i = 0; i < kUpdates; ++i)
    out.metrics.push_back(algo->update(sampler->collect().samples,
                                       {.steps = i * kEnvs * kT, .schedule_steps = 100'000}));
  for (const auto& [name, tensor] : agent->parameters())
    out.parameters.add(name, tensor.detach().clone());
  return out;
}

std::vector<Learned> learn_by_ranks(const Setting& setting, int count) {
  struct alignas(64) Line : std::array<std::byte, 64> {};
  const RankExchangeOptions options{.ranks = count, .spin = 0, .timeout = 20s};
  std::vector<Line> memory(RankExchange::bytes(options) / 64 + 1);
  const RankExchange exchange(memory[0].data(), options);
  std::vector<Learned> all(static_cast<std::size_t>(count));
  std::vector<std::jthread> threads;
  for (int r = 0; r < count; ++r)
    threads.emplace_back([&, r] {
      const auto ranks = make_shared_ranks(exchange.of(r));
      all[static_cast<std::size_t>(r)] = learn(setting, *ranks);
    });
  threads.clear();
  return all;
}

void expect_the_same(const Setting& setting, int ranks) {
  const auto one = learn(setting, alone());
  const auto all = learn_by_ranks(setting, ranks);
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

MakeAlgo ppo(PpoOptions options) {
  options.epochs = 2;
  options.minibatches = 2;
  options.slices = 2;
  options.learning_rate = 1e-3;
  return [options](ActorCritic& agent, Ranks& ranks) { return make_ppo(agent, options, ranks); };
}

TEST(RanksLearningTest, PpoOfTwoRanksIsThatOfTwoSlices) { expect_the_same({ppo({})}, 2); }

TEST(RanksLearningTest, PpoThatNormalizesWholeWindows) {
  expect_the_same({ppo({.normalize_advantage = NormalizeAdvantage::kWindow})}, 2);
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

TEST(RanksLearningTest, A2cOfFourRanks) {
  expect_the_same({[](ActorCritic& agent, Ranks& ranks) {
                    return make_a2c(agent, {.normalize_advantage = true}, ranks);
                  }},
                  4);
}

TEST(RanksLearningTest, Impala) {
  expect_the_same({[](ActorCritic& agent, Ranks& ranks) { return make_impala(agent, {}, ranks); }},
                  2);
}

TEST(RanksLearningTest, SlicesThatCannotBeSharedAreRefused) {
  const auto agent = make_actor_critic(make_cart_pole()({})->spec(), {.hidden = {16}}, {}, 1);
  EXPECT_NE(message_of([&] { make_ppo(*agent, {.slices = -1}); }).find("ppo.slices is -1"),
            std::string::npos);
}

}  // namespace
}  // namespace shoal
