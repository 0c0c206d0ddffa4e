#include <gtest/gtest.h>
#include <torch/torch.h>

#include "shoal/core/error.h"
#include "shoal/models/actor_critic.h"
#include "tests/models/recurrent_oracle.h"
#include "tests/support/special_values.h"

namespace shoal {
namespace {

constexpr std::int64_t kWide = 3, kActions = 4;
const Named<ActionSpec> kAction = ActionSpec::discrete(kActions);

class RecurrentTest : public ::testing::TestWithParam<MemoryKind> {
 protected:
  void SetUp() override { torch::manual_seed(4); }

  static std::shared_ptr<ActorCriticModel> make(const ModelOptions& options) {
    auto o = options;
    o.memory = GetParam();
    auto model = make_model(ArraySpec{.shape = {kWide}}, 5, o, 1, kAction);
    randomize(*model);
    return model;
  }
};

double error(const at::Tensor& a, const at::Tensor& b) {
  return (a.to(at::kDouble) - b.to(at::kDouble)).abs().max().item<double>();
}

// Including resets in the middle of sequences; with and without inputs from the previous step.
TEST_P(RecurrentTest, SequencesAndTheirGradientsEqualTheCellsStepByStep) {
  for (const bool sees : {true, false}) {
    for (const auto& hidden : {std::vector<std::int64_t>{}, {6}}) {
      SCOPED_TRACE(fmt::format("{} layers, sees the previous step: {}", hidden.size(), sees));
      const auto model = make({.hidden = hidden, .memory_size = 7, .memory_sees_previous = sees});
      const auto in = random_sequences(9, 5, kWide, kActions, model->state());
      RecurrentByHand by_hand(*model, kActions);
      const auto want = by_hand(in, sees);
      const auto out = model->forward(in);
      EXPECT_LT(error(out.policy, want.policy), 2e-6);
      EXPECT_LT(error(out.value, want.value), 2e-6);
      EXPECT_LT(error(out.state[0], by_hand.state), 2e-6);
      const auto weight = at::randn_like(out.policy);
      ((out.policy * weight).sum() + out.value.square().sum()).backward();
      ((want.policy * weight).sum() + want.value.square().sum()).backward();
      for (const auto& item : model->named_parameters()) {
        const auto wanted = by_hand.parameters[item.key()].grad();
        EXPECT_LT(error(item.value().grad(), wanted), 1e-5 * wanted.abs().max().item<double>())
            << item.key();
      }
    }
  }
}

// The path of other devices and precisions. A trunk would read float32.
TEST_P(RecurrentTest, TheLoopOverTorchsCellsIsTheSame) {
  const auto model = make({.hidden = {}, .memory_size = 7});
  auto in = random_sequences(6, 3, kWide, kActions, model->state());
  RecurrentByHand by_hand(*model, kActions);
  const auto want = by_hand(in);
  model->to(at::kDouble);
  for (auto& [name, state] : in.state) state = state.to(at::kDouble);
  const auto out = model->forward(in);
  EXPECT_LT(error(out.policy, want.policy), 1e-12);
  EXPECT_LT(error(out.value, want.value), 1e-12);
  EXPECT_LT(error(out.state[0], by_hand.state), 1e-12);
}

TEST_P(RecurrentTest, ActingStepByStepEqualsTheSequence) {
  const auto model = make({.hidden = {6, 9}, .memory_size = 13});
  const auto acting = model->make_recurrent_acting();
  ASSERT_TRUE(acting);
  const auto in = random_sequences(8, 30, kWide, kActions, model->state());
  torch::NoGradGuard no_grad;
  const auto whole = model->forward(in);
  NamedTensors state = in.state;
  for (std::int64_t t = 0; t < in.time; ++t) {
    const auto step = step_of(in, t, state);
    ModelOut out{
        at::full({30, 5}, 1e9F), at::full({30}, 1e9F), {{"memory", at::full_like(state[0], 1e9F)}}};
    acting->run(step, out);
    EXPECT_LT(error(out.policy, whole.policy.narrow(0, t * 30, 30)), 5e-6);
    EXPECT_LT(error(out.value, whole.value.narrow(0, t * 30, 30)), 5e-6);
    ModelOut value{at::empty({30, 5}), at::empty({30}), {}};  // and nothing of the state
    acting->run(step, value);
    EXPECT_TRUE(at::equal(value.value, out.value));
    state = out.state;
  }
  EXPECT_LT(error(state[0], whole.state[0]), 5e-6);
}

// Bit for bit: samplers act in batches of different sizes.
TEST_P(RecurrentTest, ARowDoesNotDependOnItsBatch) {
  const auto model = make({.hidden = {64}, .memory_size = 40});
  const auto acting = model->make_recurrent_acting();
  const std::int64_t n = 53;
  const auto in = random_sequences(1, n, kWide, kActions, model->state());
  torch::NoGradGuard no_grad;
  ModelOut all{at::empty({n, 5}), at::empty({n}), {{"memory", at::empty_like(in.state[0])}}};
  acting->run(in, all);
  for (std::int64_t i = 0; i < n; ++i) {
    const auto row = [i](const at::Tensor& t) { return t.narrow(0, i, 1); };
    ModelIn one{.observation = Observed{row(in.observation[0].data), {}},
                .state = {{"memory", row(in.state[0])}},
                .is_first = row(in.is_first),
                .previous_action = row(in.previous_action[0]),
                .previous_reward = row(in.previous_reward)};
    ModelOut out{at::empty({1, 5}), at::empty({1}), {{"memory", at::empty_like(one.state[0])}}};
    acting->run(one, out);
    EXPECT_TRUE(at::equal(out.policy, row(all.policy)));
    EXPECT_TRUE(at::equal(out.value, row(all.value)));
    EXPECT_TRUE(at::equal(out.state[0], row(all.state[0])));
  }
}

TEST_P(RecurrentTest, ActingTakesOverNewParameters) {
  const auto model = make({.hidden = {6}, .memory_size = 7});
  const auto acting = model->make_recurrent_acting();
  randomize(*model);
  acting->refresh();
  const auto in = random_sequences(1, 4, kWide, kActions, model->state());
  ModelOut out{at::empty({4, 5}), at::empty({4}), {}};
  acting->run(in, out);
  EXPECT_LT(error(out.policy, model->forward(in).policy), 5e-6);
}

// Behind the Nature CNN, which acts by forward().
TEST_P(RecurrentTest, PicturesInSequenceEqualSingleSteps) {
  const ArraySpec image{.dtype = DType::kUInt8, .shape = {36, 36}};
  const auto model = make_model(image, 3, {.name = "nature-cnn", .memory = GetParam()}, 1, kAction);
  EXPECT_FALSE(model->make_recurrent_acting());
  torch::NoGradGuard no_grad;
  auto in = random_sequences(3, 2, 1, kActions, model->state());
  in.observation = Observed{at::randint(0, 256, {6, 36, 36}, at::kByte), {}};
  const auto whole = model->forward(in);
  NamedTensors state = in.state;
  for (std::int64_t t = 0; t < 3; ++t) {
    const auto out = model->forward(step_of(in, t, state));
    EXPECT_LT(error(out.policy, whole.policy.narrow(0, 2 * t, 2)), 1e-5);
    state = out.state;
  }
  EXPECT_LT(error(state[0], whole.state[0]), 1e-5);
}

TEST_P(RecurrentTest, ImpossibleOptionsAreErrors) {
  EXPECT_THROW(make({.memory_size = 0}), Error);
  EXPECT_THROW(make({.name = "unheard-of"}), Error);
  const auto model = make({});
  EXPECT_THROW(
      model->forward(
          {.observation = Observed{at::zeros({1, kWide}), {}}, .state = {}, .is_first = {}}),
      Error);
}

// With several observation fields and state parts.
TEST_P(RecurrentTest, SpecialValuesAreThoseOfTheCellsStepByStep) {
  const auto special = testing::special_values();
  const auto n = special.size(0);
  const auto model = make({.hidden = {6}, .memory_size = 7});
  const auto acting = model->make_recurrent_acting();
  torch::NoGradGuard no_grad;
  for (int place = 0; place < 3; ++place) {
    const auto in = random_sequences(3, n, kWide, kActions, model->state());
    if (place == 0)
      in.observation[0].data.narrow(0, 0, n).select(1, 1).copy_(special);
    else
      in.state[0].select(1, place == 1 ? 0 : -1).select(1, 2).copy_(special);
    RecurrentByHand by_hand(*model, kActions);
    const auto want = by_hand(in);
    const auto out = model->forward(in);
    EXPECT_TRUE(testing::alike(out.policy, want.policy, 5e-6)) << place;
    EXPECT_TRUE(testing::alike(out.state[0], by_hand.state, 5e-6)) << place;
    ModelOut acted{at::empty({n, 5}), at::empty({n}), {{"memory", at::empty_like(in.state[0])}}};
    acting->run(step_of(in, 0, in.state), acted);
    EXPECT_TRUE(testing::alike(acted.policy, want.policy.narrow(0, 0, n), 5e-6)) << place;
  }
}

INSTANTIATE_TEST_SUITE_P(Cells, RecurrentTest,
                         ::testing::Values(MemoryKind::kLstm, MemoryKind::kGru),
                         [](const auto& test) {
                           return test.param == MemoryKind::kLstm ? "Lstm" : "Gru";
                         });

}  // namespace
}  // namespace shoal
