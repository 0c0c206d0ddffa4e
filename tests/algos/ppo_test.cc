#include "shoal/algos/ppo.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>
#include <limits>
#include <numeric>

#include "algos/pg/minibatches.h"
#include "shoal/core/error.h"
#include "shoal/core/finite.h"
#include "tests/algos/rollouts.h"
#include "tests/algos/spy_agent.h"
#include "tests/support/message_of.h"

namespace shoal::ppo_test {
namespace {

constexpr std::int64_t kSteps = 6, kEnvs = 4, kWidth = 3, kChoices = 4;
const Progress kStart{.steps = 0, .schedule_steps = 1000};

double metric(const Metrics& metrics, const std::string& name) {
  for (const auto& [key, value] : metrics)
    if (key == name) return value;
  ADD_FAILURE() << "no metric " << name;
  return 0;
}

std::vector<at::Tensor> copies(ActorCritic& agent) {
  std::vector<at::Tensor> out;
  for (const auto& p : agent.learnable()) out.push_back(p.detach().clone());
  return out;
}

double largest_change(const std::vector<at::Tensor>& before, ActorCritic& agent) {
  double change = 0;
  const auto after = agent.learnable();
  for (std::size_t i = 0; i < before.size(); ++i)
    change = std::max(change, (after[i].detach() - before[i]).abs().max().item<double>());
  return change;
}

// A rollout in which the first number of observation n is n.
Samples numbered_rollout() {
  torch::manual_seed(1);
  auto s = random_rollout(kSteps, kEnvs, kWidth, kChoices);
  s.observed[0].data.select(1, 0).copy_(at::arange((kSteps + 1) * kEnvs));
  return s;
}

std::vector<std::int64_t> asked_rows(const EvaluateIn& in) {
  const auto numbers = in.observation[0].data.select(1, 0).to(at::kLong).contiguous();
  return {numbers.data_ptr<std::int64_t>(), numbers.data_ptr<std::int64_t>() + numbers.numel()};
}

TEST(PpoTest, EveryPassVisitsEverySampleOnceInAnotherOrder) {
  auto spy = make_spy(kWidth, kChoices);
  const auto s = numbered_rollout();
  make_ppo(spy, {.epochs = 3, .minibatches = 4})->update(s, kStart);
  ASSERT_EQ(spy.asked.size(), 3u * 4);
  std::vector<std::vector<std::int64_t>> passes(3);
  for (std::size_t i = 0; i < spy.asked.size(); ++i) {
    const auto rows = asked_rows(spy.asked[i]);
    EXPECT_EQ(rows.size(), 6u);
    // The action matches the observation.
    const auto index = at::tensor(rows, at::kLong);
    EXPECT_TRUE(at::equal(spy.asked[i].action[0], s.action[0].flatten().index_select(0, index)));
    passes[i / 4].insert(passes[i / 4].end(), rows.begin(), rows.end());
  }
  EXPECT_NE(passes[0], passes[1]);
  EXPECT_NE(passes[1], passes[2]);
  std::vector<std::int64_t> all(kSteps * kEnvs);
  std::iota(all.begin(), all.end(), 0);
  EXPECT_NE(passes[0], all) << "not shuffled";
  for (auto& pass : passes) {
    std::sort(pass.begin(), pass.end());
    EXPECT_EQ(pass, all);
  }
}

TEST(PpoTest, ALossThatIsNotFiniteEndsTheUpdateAtOnce) {
  auto spy = make_spy(kWidth, kChoices);
  auto s = numbered_rollout();
  s.reward.fill_(1e30);
  const auto ppo = make_ppo(spy, {.epochs = 3, .minibatches = 4});
  const auto text = message_of<DataError>([&] { ppo->update(s, kStart); });
  EXPECT_TRUE(text.starts_with("value_loss of the update after 0 steps is inf")) << text;
  EXPECT_EQ(spy.asked.size(), 1u);
}

TEST(PpoTest, MinibatchesThatDoNotDivideTheSamplesDifferByOne) {
  for (const int minibatches : {5, 7, 9, 23, 24}) {
    auto spy = make_spy(kWidth, kChoices);
    make_ppo(spy, {.epochs = 1, .minibatches = minibatches})->update(numbered_rollout(), kStart);
    EXPECT_EQ(spy.asked.size(), static_cast<std::size_t>(minibatches));
    for (const auto& in : spy.asked)
      EXPECT_NEAR(in.action[0].size(0), 24.0 / minibatches, 1) << minibatches;
  }
}

TEST(PpoTest, TheSeedDecidesTheOrder) {
  const auto order_of = [](std::uint64_t seed) {
    auto spy = make_spy(kWidth, kChoices);
    make_ppo(spy, {.seed = seed})->update(numbered_rollout(), kStart);
    return asked_rows(spy.asked[0]);
  };
  EXPECT_EQ(order_of(1), order_of(1));
  EXPECT_NE(order_of(1), order_of(2));
}

TEST(PpoTest, TellsTheAgentThatItsParametersChanged) {
  auto spy = make_spy(kWidth, kChoices);
  const auto before = copies(spy);
  make_ppo(spy, {})->update(numbered_rollout(), kStart);
  EXPECT_GT(largest_change(before, spy), 0);
  EXPECT_GE(spy.changes, 1);
}

// Until the last update actions have the probability they were chosen with.
TEST(PpoTest, TheAgentObservesARolloutThatWasLearnedFrom) {
  auto spy = make_spy(kWidth, kChoices);
  const auto ppo = make_ppo(spy, {.epochs = 1, .minibatches = 2});
  spy.order.clear();
  ppo->update(numbered_rollout(), kStart);
  EXPECT_EQ(spy.order,
            (std::vector<std::string>{"evaluate", "evaluate", "observe", "parameters_changed"}));
}

TEST(PpoTest, TheLearningRateFallsToZeroOverTheSchedule) {
  for (const bool anneal : {false, true}) {
    auto spy = make_spy(kWidth, kChoices);
    const auto ppo = make_ppo(spy, {.learning_rate = 0.02, .anneal_learning_rate = anneal});
    const auto rate_at = [&](std::int64_t steps) {
      return metric(ppo->update(numbered_rollout(), {.steps = steps, .schedule_steps = 1000}),
                    "learning_rate");
    };
    EXPECT_DOUBLE_EQ(rate_at(0), 0.02);
    EXPECT_DOUBLE_EQ(rate_at(750), anneal ? 0.005 : 0.02);
    const auto before = copies(spy);
    EXPECT_DOUBLE_EQ(rate_at(1000), anneal ? 0 : 0.02);
    EXPECT_DOUBLE_EQ(rate_at(5000), anneal ? 0 : 0.02);
    EXPECT_EQ(largest_change(before, spy) > 0, !anneal);
  }
}

TEST(PpoTest, TheClipRangeFallsOverTheSchedule) {
  // The first pass has the ratios of the rollout: a narrower range clips more of them.
  const auto clipped_at = [](bool anneal, std::int64_t steps) {
    auto spy = make_spy(kWidth, kChoices);
    const auto ppo =
        make_ppo(spy, {.epochs = 1, .minibatches = 1, .clip = 0.2, .anneal_clip = anneal});
    return metric(ppo->update(numbered_rollout(), {.steps = steps, .schedule_steps = 1000}),
                  "clip_fraction");
  };
  EXPECT_EQ(clipped_at(false, 900), clipped_at(false, 0));
  EXPECT_EQ(clipped_at(true, 0), clipped_at(false, 0));
  EXPECT_GT(clipped_at(true, 900), clipped_at(true, 0));
  EXPECT_LT(clipped_at(true, 0), 0.5);
  EXPECT_GT(clipped_at(true, 900), 0.5);
}

TEST(PpoTest, TheValuesClipRangeFallsWithIt) {
  // The network says about 0, and so does the target, but the value was 1000.
  const auto loss_at = [](std::int64_t steps) {
    auto spy = make_spy(kWidth, kChoices);
    auto s = numbered_rollout();
    s.observed[0].data.zero_();
    s.agent_info.at("value").fill_(1000);
    s.reward.zero_();
    s.terminated.fill_(true);
    const PpoOptions o{.epochs = 1, .minibatches = 1, .value_clip = 2000, .anneal_clip = true};
    return metric(make_ppo(spy, o)->update(s, {.steps = steps, .schedule_steps = 1000}),
                  "value_loss");
  };
  EXPECT_LT(loss_at(0), 1);
  EXPECT_NEAR(loss_at(900), 0.5 * 800 * 800, 1000);
}

TEST(PpoTest, AdvantagesAreNormalizedOverTheRolloutOrTheMinibatch) {
  const auto learned = [](NormalizeAdvantage over, double scale, int minibatches) {
    auto spy = make_spy(kWidth, kChoices);
    auto s = numbered_rollout();
    for (auto* t : {&s.reward, &s.agent_info.at("value")}) t->mul_(scale);
    make_ppo(spy, {.epochs = 1,
                   .minibatches = minibatches,
                   .value_coef = 0,
                   .entropy_coef = 0,
                   .max_grad_norm = 0,
                   .normalize_advantage = over})
        ->update(s, kStart);
    return copies(spy)[0];
  };
  using enum NormalizeAdvantage;
  // Their scale does not matter then, and one minibatch is the rollout.
  EXPECT_TRUE(at::allclose(learned(kRollout, 1, 4), learned(kRollout, 64, 4), 1e-4, 1e-7));
  EXPECT_TRUE(at::allclose(learned(kMinibatch, 1, 4), learned(kMinibatch, 64, 4), 1e-4, 1e-7));
  EXPECT_TRUE(at::allclose(learned(kRollout, 1, 1), learned(kMinibatch, 1, 1), 1e-4, 1e-7));
  EXPECT_FALSE(at::allclose(learned(kRollout, 1, 4), learned(kMinibatch, 1, 4), 1e-4, 1e-7));
  EXPECT_FALSE(at::allclose(learned(kNone, 1, 1), learned(kRollout, 1, 1), 1e-4, 1e-7));
}

// In each environment the last steps are invalid, as many as its number.
TEST(PpoTest, InvalidStepsAreNotLearnedFrom) {
  for (const auto over : {NormalizeAdvantage::kRollout, NormalizeAdvantage::kMinibatch}) {
    std::vector<at::Tensor> learned;
    std::vector<Metrics> metrics;
    for (const float rubbish : {0.0F, 1e3F}) {
      auto spy = make_spy(kWidth, kChoices);
      auto s = numbered_rollout();
      for (std::int64_t b = 1; b < kEnvs; ++b) {
        const auto last = kSteps - b;  // valid ones are before
        s.valid.select(1, b).narrow(0, last, b).fill_(false);
        s.terminated[last - 1][b] = true;
        for (auto* t : {&s.reward, &s.agent_info.at("value"), &s.agent_info.at("log_prob")})
          t->select(1, b).narrow(0, last, b).fill_(rubbish);
      }
      s.steps = s.valid.sum().item<std::int64_t>();
      const auto ppo = make_ppo(spy, {.epochs = 2, .minibatches = 3, .normalize_advantage = over});
      metrics.push_back(ppo->update(s, kStart));
      EXPECT_EQ(spy.asked.size(), 6u);
      std::vector<std::int64_t> rows;
      for (int i = 0; i < 3; ++i)
        for (const auto row : asked_rows(spy.asked[static_cast<std::size_t>(i)]))
          rows.push_back(row);
      EXPECT_EQ(rows.size(), static_cast<std::size_t>(s.steps));
      for (const auto row : rows) EXPECT_TRUE(s.valid.flatten()[row].item<bool>()) << "row " << row;
      learned.push_back(copies(spy)[0]);
    }
    EXPECT_TRUE(at::equal(learned[0], learned[1]));
    EXPECT_EQ(metrics[0], metrics[1]);
  }
}

TEST(PpoTest, FewerValidStepsThanMinibatchesMakeFewerUpdates) {
  auto spy = make_spy(kWidth, kChoices);
  auto s = numbered_rollout();
  s.valid.narrow(0, 1, kSteps - 1).fill_(false);
  s.terminated[0].fill_(true);
  s.steps = kEnvs;
  make_ppo(spy, {.epochs = 1, .minibatches = 8})->update(s, kStart);
  EXPECT_EQ(spy.asked.size(), static_cast<std::size_t>(kEnvs));
}

TEST(PpoTest, TargetKlStopsThePasses) {
  const auto passes = [](double target_kl) {
    auto spy = make_spy(kWidth, kChoices);
    const auto metrics =
        make_ppo(spy,
                 {.learning_rate = 0.02, .epochs = 10, .minibatches = 2, .target_kl = target_kl})
            ->update(numbered_rollout(), kStart);
    EXPECT_EQ(spy.asked.size(), 2 * metric(metrics, "epochs"));
    return metric(metrics, "epochs");
  };
  EXPECT_EQ(passes(0), 10);
  EXPECT_EQ(passes(1e-9), 1);
  EXPECT_EQ(passes(1e9), 10);
  // A higher target never stops earlier, and some target stops after half of the epochs.
  std::vector<double> counts;
  for (const double target : {0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5})
    counts.push_back(passes(target));
  EXPECT_TRUE(std::is_sorted(counts.begin(), counts.end()));
  EXPECT_TRUE(std::any_of(counts.begin(), counts.end(), [](double n) { return n > 1 && n < 10; }));
}

TEST(PpoTest, GoesOnFromItsState) {
  auto a = make_spy(kWidth, kChoices), b = make_spy(kWidth, kChoices),
       c = make_spy(kWidth, kChoices);
  const PpoOptions options{.learning_rate = 0.01, .minibatches = 1};
  const auto first = make_ppo(a, options), second = make_ppo(b, options),
             without = make_ppo(c, options);
  const auto s = numbered_rollout();
  for (int i = 0; i < 3; ++i) first->update(s, kStart);
  {
    torch::NoGradGuard no_grad;
    for (auto* other : {&b, &c})
      for (const auto& [name, tensor] : a.parameters()) other->parameters().at(name).copy_(tensor);
    auto to = second->state();
    for (const auto& [name, tensor] : first->state()) to.at(name).copy_(tensor);
  }
  for (const auto& ppo : {&first, &second, &without}) (*ppo)->update(s, kStart);
  EXPECT_LT(largest_change(copies(a), b), 1e-5);
  EXPECT_GT(largest_change(copies(a), c), 1e-4) << "the state makes no difference";
}

TEST(PpoTest, ImpossibleOptionsAreErrors) {
  auto spy = make_spy(kWidth, kChoices);
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  for (const auto& bad : std::vector<PpoOptions>{{.learning_rate = 0},
                                                 {.learning_rate = -1},
                                                 {.learning_rate = kNan},
                                                 {.discount = -0.1},
                                                 {.discount = 1.1},
                                                 {.gae_lambda = -0.1},
                                                 {.gae_lambda = 2},
                                                 {.gae_lambda = kNan},
                                                 {.epochs = 0},
                                                 {.epochs = -1},
                                                 {.minibatches = 0},
                                                 {.gradient_accumulation = 0},
                                                 {.gradient_accumulation = 2, .vtrace = true},
                                                 {.clip = 0},
                                                 {.clip = -0.1},
                                                 {.optimizer_epsilon = 0},
                                                 {.max_grad_norm = -1}})
    EXPECT_THROW(make_ppo(spy, bad), Error);
  EXPECT_NO_THROW(make_ppo(spy, {.discount = 1, .gae_lambda = 0}));
}

TEST(PpoTest, OnlyAPieceOfAMinibatchIsEvaluatedAtATime) {
  auto spy = make_spy(kWidth, kChoices);
  make_ppo(spy, {.epochs = 1, .minibatches = 2, .gradient_accumulation = 3})
      ->update(numbered_rollout(), kStart);
  ASSERT_EQ(spy.asked.size(), 6U);  // of 24 steps
  for (const auto& in : spy.asked) EXPECT_EQ(in.action[0].size(0), 4);
}

// So that ranks with minibatches of other sizes make the same collective calls.
TEST(PpoTest, EveryMinibatchHasAsManyPieces) {
  const auto rollout = numbered_rollout();
  for (const std::int64_t rows : {0, 1, 2, 5}) {
    EXPECT_EQ((Minibatch{at::arange(rows), {}}.pieces(rollout, 3).size()), 3U);
    EXPECT_EQ((Minibatch{{}, at::arange(rows)}.pieces(rollout, 3).size()), 3U);
  }
}

TEST(PpoTest, MoreMinibatchesThanSamplesIsAnError) {
  auto spy = make_spy(kWidth, kChoices);
  EXPECT_THROW(make_ppo(spy, {.minibatches = 25})->update(numbered_rollout(), kStart), Error);
  EXPECT_NO_THROW(make_ppo(spy, {.minibatches = 24})->update(numbered_rollout(), kStart));
}

}  // namespace
}  // namespace shoal::ppo_test
