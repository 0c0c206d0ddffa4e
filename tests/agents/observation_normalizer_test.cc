#include "src/agents/observation_normalizer.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include "shoal/agents/actor_critic.h"
#include "shoal/core/error.h"

namespace shoal {
namespace {

constexpr std::int64_t kSteps = 4, kEnvs = 3;

// A dictionary of a vector, a stacked vector and an image.
const NamedSpecs kFields = {{"body", {.shape = {2}}},
                            {"history", {.shape = {3}, .stack = 2}},
                            {"camera", {.dtype = DType::kUInt8, .shape = {4, 4}}}};

Samples rollout_of(NamedTensors observation) {
  Samples s;
  s.T = kSteps;
  s.B = kEnvs;
  s.steps = kSteps * kEnvs;
  s.valid = at::ones({kSteps, kEnvs}, at::kBool);
  s.observation = std::move(observation);
  return s;
}

Samples random_rollout(double offset) {
  return rollout_of({{"body", at::randn({kSteps + 1, kEnvs, 2}) * 3 + offset},
                     {"history", at::randn({kSteps + 1, kEnvs, 3}) - offset},
                     {"camera", at::randint(0, 256, {kSteps + 1, kEnvs, 4, 4}, at::kByte)}});
}

Observations of(const Samples& s) {
  const auto frames = s.observation.at("history").flatten(0, 1);
  const auto now = at::arange(frames.size(0));
  return {{"body", {s.observation.at("body").flatten(0, 1), {}}},
          {"history", {frames, at::stack({now - 1, now}, 1)}},  // the first one has a blank
          {"camera", {s.observation.at("camera").flatten(0, 1), {}}}};
}

TEST(ObservationNormalizerTest, RolloutByRolloutIsAllAtOnce) {
  torch::manual_seed(1);
  ObservationNormalizer normalizer(kFields);
  std::vector<at::Tensor> body;
  Samples last;
  for (const double offset : {0.0, 5.0, -20.0}) {
    last = random_rollout(offset);
    normalizer.add(normalizer.statistics(last));
    normalizer.refresh();
    body.push_back(last.observation.at("body").narrow(0, 0, kSteps).flatten(0, 1));
  }
  const auto all = at::cat(body).to(at::kDouble);
  const auto x = of(last).at("body").data;
  const auto expected = (x - all.mean(0)) / (all.var(0, false) + 1e-8).sqrt();
  EXPECT_TRUE(
      at::allclose(normalizer(of(last)).at("body").data.to(at::kDouble), expected, 1e-4, 1e-5));
}

TEST(ObservationNormalizerTest, NothingSeenChangesNothing) {
  torch::manual_seed(1);  // no number is large enough to be clipped
  const auto s = random_rollout(0);
  const auto out = ObservationNormalizer(kFields)(of(s));
  for (const auto& [name, o] : of(s))
    EXPECT_TRUE(at::allclose(out.at(name).dense().to(at::kFloat), o.dense().to(at::kFloat)))
        << name;
}

TEST(ObservationNormalizerTest, BlanksStayBlankAndImagesAreLeftAlone) {
  torch::manual_seed(1);
  ObservationNormalizer normalizer(kFields);
  const auto s = random_rollout(7);
  normalizer.add(normalizer.statistics(s));
  normalizer.refresh();
  const auto out = normalizer(of(s));
  const auto history = out.at("history").dense();
  EXPECT_EQ(history[0][0].count_nonzero().item<int>(), 0);
  EXPECT_LT(history.abs().max().item<float>(), 5);
  EXPECT_TRUE(at::equal(history[3][0], history[2][1])) << "another frame";
  EXPECT_TRUE(out.at("camera").data.is_same(of(s).at("camera").data) ||
              at::equal(out.at("camera").data, of(s).at("camera").data));
}

TEST(ObservationNormalizerTest, AVectorOfBytesHoldsNumbers) {
  torch::manual_seed(1);
  ObservationNormalizer normalizer({{"memory", {.dtype = DType::kUInt8, .shape = {5}}}});
  const auto memory = at::randint(0, 256, {kSteps + 1, kEnvs, 5}, at::kByte);
  normalizer.add(normalizer.statistics(rollout_of({{"memory", memory}})));
  normalizer.refresh();
  const auto seen = memory.narrow(0, 0, kSteps).flatten(0, 1);
  const auto out = normalizer({{"memory", {seen, {}}}}).at("memory").data.to(at::kDouble);
  EXPECT_LT(out.mean(0).abs().max().item<double>(), 1e-5);
  EXPECT_LT((out.var(0, false) - 1).abs().max().item<double>(), 1e-5);
}

// Far from zero, where float32 has no fractions.
TEST(ObservationNormalizerTest, WholeNumbersAreNormalizedUnlessTheyAreCategorical) {
  torch::manual_seed(2);
  const ArraySpec whole{.dtype = DType::kInt32, .shape = {3}},
      choice{.dtype = DType::kInt64, .low = 0, .high = 4};
  EXPECT_TRUE(is_normalized(whole));
  EXPECT_TRUE(is_normalized({.dtype = DType::kInt64, .low = 0, .high = 5000}));
  ObservationNormalizer normalizer({{"whole", whole}, {"choice", choice}});
  const auto numbers = 100'000'000 + at::randint(0, 5, {kSteps + 1, kEnvs, 3}, at::kInt);
  const auto choices = at::randint(0, 5, {kSteps + 1, kEnvs}, at::kLong);
  normalizer.add(normalizer.statistics(rollout_of({{"whole", numbers}, {"choice", choices}})));
  normalizer.refresh();
  const auto seen = numbers.narrow(0, 0, kSteps).flatten(0, 1);
  const auto chosen = choices.narrow(0, 0, kSteps).flatten();
  const auto out = normalizer({{"whole", {seen, {}}}, {"choice", {chosen, {}}}});
  EXPECT_TRUE(at::equal(out.at("choice").data, chosen));
  const auto x = out.at("whole").data.to(at::kDouble);
  EXPECT_LT(x.mean(0).abs().max().item<double>(), 1e-5);
  EXPECT_LT((x.var(0, false) - 1).abs().max().item<double>(), 1e-5);
}

TEST(ObservationNormalizerTest, FieldsMayDifferInADotAlone) {
  ObservationNormalizer normalizer({{"a.b", {}}, {"a_b", {}}});
  EXPECT_EQ(normalizer.named_buffers().size(), 6u);
}

TEST(ObservationNormalizerTest, WhatIsFarAwayIsCut) {
  ObservationNormalizer normalizer(kFields);
  auto s = random_rollout(0);
  normalizer.add(normalizer.statistics(s));
  normalizer.refresh();
  s.observation.at("body").fill_(1e6);
  EXPECT_EQ(normalizer(of(s)).at("body").data.max().item<float>(), 10);
}

TEST(ObservationNormalizerTest, InvalidStepsDoNotCount) {
  torch::manual_seed(1);
  ObservationNormalizer a(kFields), b(kFields);
  auto s = random_rollout(3);
  s.valid[2][1] = false;
  s.steps -= 1;
  a.add(a.statistics(s));
  s.observation.at("body")[2][1].fill_(1e9);
  b.add(b.statistics(s));
  for (const auto& buffer : a.named_buffers())
    EXPECT_TRUE(at::equal(buffer.value(), b.named_buffers()[buffer.key()])) << buffer.key();
}

const EnvSpec kEnv{
    .id = "Toy", .observation = ArraySpec{.shape = {2}}, .action = ActionSpec::discrete(3)};

at::Tensor values(Agent& agent, const at::Tensor& x) {
  auto value = at::empty({x.size(0)});
  agent.value({.observation = Observed{x, {}}, .noise = {.first_env = -1}}, value);
  return value;
}

TEST(NormalizingAgentTest, ItsStatisticsAreParametersToSaveButNotToLearn) {
  torch::manual_seed(1);
  const ActorCriticOptions options{.normalize_observation = true};
  const auto a = make_actor_critic(kEnv, {}, options, 1),
             b = make_actor_critic(kEnv, {}, options, 1);
  const auto x = at::randn({kSteps + 1, kEnvs, 2}) * 50 + 100;
  const auto before = values(*a, x[0]);
  EXPECT_EQ(a->learnable().size(), make_actor_critic(kEnv, {}, {}, 1)->learnable().size());
  a->observe(rollout_of(x));
  a->parameters_changed();
  EXPECT_FALSE(at::allclose(values(*a, x[0]), before));
  EXPECT_FALSE(at::allclose(values(*a, x[0]), values(*b, x[0])));
  for (const auto& [name, tensor] : a->parameters()) {
    torch::NoGradGuard no_grad;
    b->parameters().at(name).copy_(tensor);
  }
  b->parameters_changed();
  EXPECT_TRUE(at::equal(values(*a, x[0]), values(*b, x[0])));
}

// Acting and learning see the same observations.
TEST(NormalizingAgentTest, LearningSeesWhatActingSaw) {
  torch::manual_seed(1);
  const auto agent = make_actor_critic(kEnv, {}, {.normalize_observation = true}, 1);
  const auto x = at::randn({kSteps + 1, kEnvs, 2}) * 50 + 100;
  agent->observe(rollout_of(x));
  agent->parameters_changed();
  const auto seen = x[1];
  const auto now =
      agent->evaluate({.observation = Observed{seen, {}}, .action = at::zeros({kEnvs}, at::kLong)});
  EXPECT_TRUE(at::allclose(now.value, values(*agent, seen), 1e-5, 1e-6));
}

TEST(NormalizingAgentTest, ThereMustBeNumbersToNormalize) {
  auto picture = kEnv;
  picture.observation = ArraySpec{.dtype = DType::kUInt8, .shape = {84, 84}, .stack = 4};
  EXPECT_THROW(
      make_actor_critic(picture, {.name = "nature-cnn"}, {.normalize_observation = true}, 1),
      Error);
}

}  // namespace
}  // namespace shoal
