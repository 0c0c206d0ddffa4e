#include <gtest/gtest.h>
#include <torch/torch.h>

#include "shoal/models/actor_critic.h"
#include "src/models/convolution.h"
#include "src/models/nature_cnn_acting.h"
#include "tests/models/model_inputs.h"

namespace shoal {
namespace {

constexpr std::int64_t kChoices = 6;

struct Case {
  int stack;
  std::vector<std::int64_t> shape;
};
const std::vector<Case> kCases = {{4, {84, 84}},   {4, {36, 44}},    {3, {40, 36}},
                                  {1, {36, 36}},   {1, {3, 37, 40}}, {2, {3, 40, 36}},
                                  {4, {3, 84, 84}}};  // the last: Atari in colour

std::shared_ptr<ActorCriticModel> make_random_cnn(const Case& c) {
  auto model = make_model(ArraySpec{.dtype = DType::kUInt8, .shape = c.shape, .stack = c.stack},
                          kChoices, {.name = "nature-cnn"}, 1);
  randomize(*model);
  return model;
}

// The network step by step in double precision on images in [0, 1]. The channels of a stack in
// colour: all planes of the oldest image, then of the next.
Heads by_hand(const ActorCriticModel& model, const Observed& o) {
  torch::NoGradGuard no_grad;
  const auto p = [parameters = model.named_parameters()](const std::string& name) {
    return parameters[name].to(at::kDouble);
  };
  auto x = o.dense();
  x = x.reshape({x.size(0), -1, x.size(-2), x.size(-1)}).to(at::kDouble) / 255;
  x = at::conv2d(x, p("conv1.weight"), p("conv1.bias"), 4).relu();
  x = at::conv2d(x, p("conv2.weight"), p("conv2.bias"), 2).relu();
  x = at::conv2d(x, p("conv3.weight"), p("conv3.bias"), 1).relu();
  x = x.permute({0, 2, 3, 1}).flatten(1);
  x = at::linear(x, p("hidden.weight"), p("hidden.bias")).relu();
  return {at::linear(x, p("policy_head.weight"), p("policy_head.bias")),
          at::linear(x, p("value_head.weight"), p("value_head.bias")).squeeze(1)};
}

double relative_error(const at::Tensor& x, const at::Tensor& expected) {
  EXPECT_EQ(x.sizes(), expected.sizes());
  return ((x - expected).abs().max() / expected.abs().max()).item<double>();
}

void expect_close(const Heads& x, const Heads& expected, double tolerance) {
  EXPECT_LT(relative_error(x.policy, expected.policy), tolerance);
  EXPECT_LT(relative_error(x.value, expected.value), tolerance);
}

TEST(NatureCnnTest, ForwardEqualsTheLayersInDoublePrecision) {
  torch::manual_seed(1);
  for (const auto& c : kCases) {
    SCOPED_TRACE(fmt::format("stack {}, {} dimensions", c.stack, c.shape.size()));
    const auto model = make_random_cnn(c);
    const auto x = random_images(9, c.stack, c.shape);
    expect_close(heads_of(*model, x), by_hand(*model, x), 1e-4);
  }
}

TEST(NatureCnnTest, ActingNetworkEqualsForward) {
  torch::manual_seed(2);
  for (const auto& c : kCases) {
    SCOPED_TRACE(fmt::format("stack {}, {} dimensions", c.stack, c.shape.size()));
    const auto model = make_random_cnn(c);
    const auto acting = model->make_acting_network(Precision::kFloat32);
    for (const std::int64_t n : {1, 9}) {
      const auto x = random_images(n, c.stack, c.shape);
      expect_close(heads_of(*acting, x, kChoices), heads_of(*model, x), 1e-4);
    }
  }
}

TEST(NatureCnnTest, Bf16ActingIsCloseAndNotFloat32) {
  torch::manual_seed(3);
  for (const auto& c : kCases) {
    SCOPED_TRACE(fmt::format("stack {}, {} dimensions", c.stack, c.shape.size()));
    const auto model = make_random_cnn(c);
    const auto acting = model->make_acting_network(Precision::kBf16);
    const auto x = random_images(6, c.stack, c.shape);
    const auto rough = heads_of(*acting, x, kChoices), exact = heads_of(*model, x);
    EXPECT_EQ(rough.policy.scalar_type(), at::kFloat);
    expect_close(rough, exact, 0.03);
    EXPECT_FALSE(at::allclose(rough.policy, exact.policy, 1e-5, 1e-6));
  }
}

// This machine acts with only one of the two; both must keep working.
TEST(NatureCnnTest, OneDnnActsLikeWhatThisCpuUses) {
  torch::manual_seed(6);
  using torch::nn::Conv2d, torch::nn::Conv2dOptions, torch::nn::Linear;
  const NatureCnnLayers layers{.conv1 = Conv2d(Conv2dOptions(4, 32, 8).stride(4)),
                               .conv2 = Conv2d(Conv2dOptions(32, 64, 4).stride(2)),
                               .conv3 = Conv2d(Conv2dOptions(64, 64, 3)),
                               .hidden = Linear(64 * 7 * 7, 512),
                               .policy = Linear(512, kChoices),
                               .value = Linear(512, 1)};
  const auto x = random_images(9, 4, {84, 84});
  const auto expected = heads_of(*make_nature_cnn_acting(layers, Precision::kFloat32), x, kChoices);
  expect_close(heads_of(*make_onednn_acting(layers, Precision::kFloat32), x, kChoices), expected,
               1e-4);
  const auto bf16 = make_onednn_acting(layers, Precision::kBf16);
  expect_close(heads_of(*bf16, x, kChoices), expected, 0.05);
  EXPECT_NE(bf16->description().find("bf16"), std::string::npos);
}

// Pixels of 0 and 1 are read as those of 0 and 255.
TEST(NatureCnnTest, DividesPixelsByTheirHighestValue) {
  torch::manual_seed(8);
  const auto make = [](double high) {
    return make_model(
        ArraySpec{.dtype = DType::kUInt8, .shape = {40, 36}, .low = 0, .high = high, .stack = 1},
        kChoices, {.name = "nature-cnn"}, 1);
  };
  const auto model = make(1), wide = make(255);
  const auto pixels = at::randint(0, 2, {9, 40, 36}, at::kByte);
  const Observed x{pixels, {}}, bright{pixels * 255, {}};
  expect_close(heads_of(*model, x), heads_of(*wide, bright), 1e-4);
  for (const auto precision : {Precision::kFloat32, Precision::kBf16}) {
    const auto acting = model->make_acting_network(precision);
    expect_close(heads_of(*acting, x, kChoices), heads_of(*model, x),
                 precision == Precision::kBf16 ? 0.03 : 1e-4);
  }
}

TEST(NatureCnnTest, SaysItsPrecision) {
  const auto model = make_random_cnn(kCases[1]);
  const auto described = [&](Precision p) { return model->make_acting_network(p)->description(); };
  EXPECT_NE(described(Precision::kFloat32).find("float32"), std::string::npos);
  EXPECT_NE(described(Precision::kBf16).find("bf16"), std::string::npos);
}

TEST(NatureCnnTest, RefreshTakesTheNewParameters) {
  torch::manual_seed(4);
  const auto model = make_random_cnn(kCases[1]);
  const auto acting = model->make_acting_network(Precision::kFloat32);
  const auto x = random_images(3, 4, kCases[1].shape);
  heads_of(*acting, x, kChoices);
  randomize(*model);
  acting->refresh();
  expect_close(heads_of(*acting, x, kChoices), heads_of(*model, x), 1e-4);
}

// Gradients reach every layer, and the pixels' scale is part of the network: with weights of order
// 1 the output is too.
TEST(NatureCnnTest, LearnsInEveryLayer) {
  torch::manual_seed(5);
  const auto model = make_random_cnn(kCases[1]);
  const auto out = model->forward(
      {.observation = random_images(8, 4, kCases[1].shape), .state = {}, .is_first = {}});
  EXPECT_LT(out.policy.abs().max().item<double>(), 20);
  (out.policy.square().sum() + out.value.square().sum()).backward();
  for (const auto& item : model->named_parameters()) {
    ASSERT_TRUE(item.value().grad().defined()) << item.key();
    EXPECT_GT(item.value().grad().abs().max().item<double>(), 0) << item.key();
  }
}

// Alone, and before a recurrent cell.
TEST(NatureCnnTest, Bf16LearnsNearlyTheSame) {
  torch::manual_seed(7);
  for (const auto memory : {MemoryKind::kNone, MemoryKind::kGru}) {
    const auto make = [&](Precision precision) {
      return make_model(
          ArraySpec{.dtype = DType::kUInt8, .shape = {84, 84}, .stack = 4}, kChoices,
          {.name = "nature-cnn", .precision = precision, .memory = memory, .memory_size = 16}, 1);
    };
    const auto exact = make(Precision::kFloat32), rough = make(Precision::kBf16);
    constexpr std::int64_t kN = 8;
    ModelIn in{.observation = random_images(kN, 4, {84, 84}),
               .state = {},
               .is_first = at::zeros({kN}, at::kBool)};
    in.previous_reward = at::zeros({kN});
    for (const auto& [name, spec] : exact->state()) in.state.add(name, at::zeros({kN, 16}));
    for (const auto& model : {exact, rough}) {
      const auto out = model->forward(in);
      EXPECT_EQ(out.policy.scalar_type(), at::kFloat);
      EXPECT_EQ(out.value.scalar_type(), at::kFloat);
      (out.policy.sum() + out.value.sum()).backward();
    }
    const auto others = rough->named_parameters();
    bool same = true;
    for (const auto& item : exact->named_parameters()) {
      SCOPED_TRACE(item.key());
      const auto expected = item.value().grad(), grad = others[item.key()].grad();
      EXPECT_EQ(grad.scalar_type(), at::kFloat);
      EXPECT_LE((grad - expected).norm().item<double>(), 0.15 * expected.norm().item<double>());
      same = same && at::equal(grad, expected);
    }
    EXPECT_EQ(same, !has_fast_bf16()) << "rounded where that is faster";
  }
}

}  // namespace
}  // namespace shoal
