#include <gtest/gtest.h>
#include <torch/torch.h>

#include <fstream>
#include <map>
#include <sstream>

#include "shoal/agents/actor_critic.h"
#include "shoal/algos/ppo.h"
#include "shoal/models/actor_critic.h"
#include "tests/algos/rollouts.h"

// Compares one update with that of tests/oracles/ppo.py, which describes the numbers.
namespace shoal::ppo_oracle_test {
namespace {

constexpr std::int64_t kSteps = 8, kEnvs = 4, kWidth = 3, kChoices = 4;

at::Tensor wave(double start, std::vector<std::int64_t> shape, double scale = 1) {
  const auto k = at::arange(c10::multiply_integers(shape), at::kDouble);
  return (k * 1.7 + start).sin().mul(scale).to(at::kFloat).view(shape);
}

Samples rollout() {
  const auto k = at::arange(kSteps * kEnvs, at::kLong).view({kSteps, kEnvs});
  auto s = make_rollout({.observation = wave(0.1, {kSteps + 1, kEnvs, kWidth}, 1.5),
                         .action = (k * (k + 3)).floor_divide(2).remainder(kChoices),
                         .log_prob = wave(0.3, {kSteps, kEnvs}, 0.2) - 1.4,
                         .value = wave(0.4, {kSteps, kEnvs}, 0.6),
                         .reward = wave(0.5, {kSteps, kEnvs})});
  s.terminated = k.remainder(7).eq(3);
  s.truncated = k.remainder(11).eq(5);
  s.final_value = at::where(s.truncated.logical_and(s.terminated.logical_not()),
                            wave(0.6, {kSteps, kEnvs}, 2), 0.0F);
  s.bootstrap_value = wave(0.7, {kEnvs});
  return s;
}

std::shared_ptr<ActorCriticModel> make_network(bool shared_trunk) {
  auto model = make_model(ArraySpec{.shape = {kWidth}}, kChoices,
                          {.hidden = {6}, .shared_trunk = shared_trunk}, 1);
  torch::NoGradGuard no_grad;
  for (auto& item : model->named_parameters()) {
    double start = 0;
    for (const char c : item.key()) start += c;
    item.value().copy_(wave(start, item.value().sizes().vec(), 0.3));
  }
  return model;
}

// name -> numbers, of one case.
std::map<std::string, std::vector<double>> expected_of(const std::string& wanted) {
  std::map<std::string, std::vector<double>> out;
  std::ifstream file(SHOAL_ORACLES "/ppo.txt");
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string name, found;
    words >> found >> name;
    if (found != wanted) continue;
    for (double x = 0; words >> x;) out[name].push_back(x);
  }
  return out;
}

PpoOptions base_options() {
  return {.learning_rate = 0.01,
          .optimizer_epsilon = 1e-5,
          .discount = 0.97,
          .gae_lambda = 0.9,
          .epochs = 2,
          .minibatches = 1,
          .clip = 0.35,
          .value_clip = 0,
          .value_coef = 0.7,
          .entropy_coef = 0.05,
          .max_grad_norm = 0.3};
}

void expect_equal(const std::string& name, const PpoOptions& options, bool shared_trunk,
                  const Progress& progress) {
  const auto expected = expected_of(name);
  ASSERT_EQ(expected.size(), shared_trunk ? 13u : 15u) << "metrics and parameters of " << name;
  const auto model = make_network(shared_trunk);
  const EnvSpec spec{.id = "Oracle",
                     .observation = ArraySpec{.shape = {kWidth}},
                     .action = ActionSpec::discrete(kChoices)};
  const auto agent = make_actor_critic(spec, model);
  const auto metrics = make_ppo(*agent, options)->update(rollout(), progress);

  std::size_t compared = 0;
  for (const auto& [metric, value] : metrics) {
    if (!expected.contains(metric)) continue;
    EXPECT_NEAR(value, expected.at(metric).at(0), 1e-5) << metric;
    ++compared;
  }
  for (const auto& item : model->named_parameters()) {
    const auto want = at::tensor(expected.at(item.key()), at::kDouble).view(item.value().sizes());
    EXPECT_LT((item.value() - want).abs().max().item<double>(), 1e-5) << item.key();
    ++compared;
  }
  EXPECT_EQ(compared, expected.size());
}

TEST(PpoOracleTest, Plain) {
  expect_equal("plain", base_options(), false, {.steps = 0, .schedule_steps = 100});
}

TEST(PpoOracleTest, ValueClippingAndSchedules) {
  auto options = base_options();
  options.value_clip = 0.15;
  options.anneal_clip = true;
  expect_equal("value_clip", options, false, {.steps = 250, .schedule_steps = 1000});
}

TEST(PpoOracleTest, SharedTrunkWithoutNormalisationAndGradientClipping) {
  auto options = base_options();
  options.value_clip = 0.15;
  options.max_grad_norm = 0;
  options.normalize_advantage = NormalizeAdvantage::kNone;
  expect_equal("shared_trunk", options, true, {.steps = 0, .schedule_steps = 1000});
}

}  // namespace
}  // namespace shoal::ppo_oracle_test
