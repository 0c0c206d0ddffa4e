#include <gtest/gtest.h>
#include <torch/torch.h>

#include "shoal/core/error.h"
#include "shoal/models/actor_critic.h"
#include "src/models/convolution.h"
#include "tests/models/model_inputs.h"
#include "tests/support/message_of.h"

namespace shoal::multi_input_test {
namespace {

constexpr std::int64_t kChoices = 5, kRows = 6;

ArraySpec bytes(std::vector<std::int64_t> shape, int stack = 1) {
  return {.dtype = DType::kUInt8, .shape = std::move(shape), .low = 0, .high = 255, .stack = stack};
}

// Pictures of every kind between other fields.
NamedSpecs every_kind() {
  return {{"speed", ArraySpec{.shape = {2}}},
          {"camera", bytes({40, 44}, 3)},
          {"gear", ArraySpec{.dtype = DType::kInt64, .shape = {}, .low = -1, .high = 2}},
          {"map", bytes({3, 8, 11})},
          {"layers", ArraySpec{.shape = {2, 7, 9}}},
          {"table", ArraySpec{.shape = {3, 4}}},
          {"switches", ArraySpec{.dtype = DType::kBool, .shape = {3}, .low = 0, .high = 1}}};
}

Observations observations() {
  Observations all;
  all.add("speed", {at::randn({kRows, 2}), {}});
  all.add("camera", random_images(kRows, 3, {40, 44}));
  all.add("gear", {at::randint(-1, 3, {kRows}, at::kLong), {}});
  all.add("map", random_images(kRows, 1, {3, 8, 11}));
  all.add("layers", {at::randn({kRows, 2, 7, 9}), {}});
  all.add("table", {at::randn({kRows, 3, 4}), {}});
  all.add("switches", {at::rand({kRows, 3}).lt(0.5), {}});
  return all;
}

// The same network with plain operations in double precision.
class ByHand {
 public:
  ByHand(const ActorCriticModel& model, std::string prefix)
      : parameters_(model.named_parameters()), prefix_(std::move(prefix)) {}

  at::Tensor p(const std::string& name) const { return parameters_[name].to(at::kDouble); }
  at::Tensor linear(const std::string& name, const at::Tensor& x) const {
    return at::linear(x, p(name + ".weight"), p(name + ".bias"));
  }
  at::Tensor conv(const std::string& name, const at::Tensor& x, int stride, int padding) const {
    return at::conv2d(x, p(name + ".weight"), p(name + ".bias"), stride, padding);
  }
  at::Tensor flat(const std::string& cnn, const at::Tensor& x) const {
    return linear(cnn + ".features", x.permute({0, 2, 3, 1}).flatten(1)).relu();
  }
  at::Tensor plain(int number, at::Tensor x, const std::vector<int>& strides) const {
    const auto cnn = prefix_ + "input.cnn" + std::to_string(number);
    for (std::size_t i = 0; i < strides.size(); ++i)
      x = conv(cnn + ".conv" + std::to_string(i), x, strides[i], 0).relu();
    return flat(cnn, x);
  }
  at::Tensor impala(int number, at::Tensor x) const {
    const auto cnn = prefix_ + "input.cnn" + std::to_string(number);
    for (int block = 0; block < 3; ++block) {
      const auto name = cnn + ".block" + std::to_string(block);
      x = at::max_pool2d(conv(name + "_conv", x, 1, 1), 3, 2, 1);
      x = x + conv(name + "_residual1", conv(name + "_residual0", x.relu(), 1, 1).relu(), 1, 1);
      x = x + conv(name + "_residual3", conv(name + "_residual2", x.relu(), 1, 1).relu(), 1, 1);
    }
    return flat(cnn, x.relu());
  }

  // pictures(number, picture): the features of a picture [N, C, H, W] of numbers.
  template <class Pictures>
  at::Tensor features(const Observations& o, const Pictures& pictures) const {
    const auto real = [&](const char* name) { return o.at(name).data.to(at::kDouble); };
    const auto gear = (o.at("gear").data.unsqueeze(1) == at::arange(-1, 3)).to(at::kDouble);
    return at::cat({pictures(0, o.at("camera").dense().to(at::kDouble) / 255),
                    pictures(1, real("map") / 255), pictures(2, real("layers")), real("speed"),
                    gear, real("table").flatten(1), real("switches")},
                   1);
  }
  Heads heads(const at::Tensor& x) const {
    const auto hidden = [&](const std::string& name) {
      return linear(name + "1", linear(name + "0", x).tanh()).tanh();
    };
    return {linear("policy_head", hidden("policy")),
            linear("value_head", hidden("value")).squeeze(1)};
  }

 private:
  torch::OrderedDict<std::string, at::Tensor> parameters_;
  std::string prefix_;
};

double off(const at::Tensor& x, const at::Tensor& expected) {
  EXPECT_EQ(x.sizes(), expected.sizes());
  return ((x - expected).abs().max() / expected.abs().max()).item<double>();
}
void expect_close(const Heads& found, const Heads& expected) {
  EXPECT_LT(off(found.policy, expected.policy), 1e-5);
  EXPECT_LT(off(found.value, expected.value), 1e-5);
}

std::shared_ptr<ActorCriticModel> make_random(const ModelOptions& options) {
  auto model = make_model(every_kind(), kChoices, options, 1);
  randomize(*model);
  return model;
}

TEST(MultiInputTest, PlainConvolutionsEqualTheLayersInDoublePrecision) {
  torch::manual_seed(1);
  const auto model = make_random({.name = "multi-input", .hidden = {24, 12}});
  const auto o = observations();
  torch::NoGradGuard no_grad;
  const ByHand by_hand(*model, "");
  const auto x = by_hand.features(o, [&](int number, const at::Tensor& picture) {
    return by_hand.plain(number, picture, number == 0 ? std::vector{4, 2, 1} : std::vector{1, 2});
  });
  EXPECT_EQ(x.size(1), 512 + 256 + 256 + 2 + 4 + 12 + 3);
  expect_close(heads_of(*model, o), by_hand.heads(x));
}

TEST(MultiInputTest, ListedLayersEqualTheLayersInDoublePrecision) {
  torch::manual_seed(2);
  const auto model = make_random({.name = "multi-input",
                                  .hidden = {24, 12},
                                  .cnn = CnnKind::kLayers,
                                  .cnn_layers = {8, 3, 2, 16, 2, 1, 4, 1, 1}});
  const auto o = observations();
  torch::NoGradGuard no_grad;
  const ByHand by_hand(*model, "");
  const auto x = by_hand.features(o, [&](int number, const at::Tensor& picture) {
    return by_hand.plain(number, picture, {2, 1, 1});
  });
  expect_close(heads_of(*model, o), by_hand.heads(x));
}

TEST(MultiInputTest, ResidualConvolutionsEqualTheLayersInDoublePrecision) {
  torch::manual_seed(3);
  const auto model =
      make_random({.name = "multi-input", .hidden = {24, 12}, .cnn = CnnKind::kImpala});
  const auto o = observations();
  torch::NoGradGuard no_grad;
  const ByHand by_hand(*model, "");
  const auto x = by_hand.features(
      o, [&](int number, const at::Tensor& picture) { return by_hand.impala(number, picture); });
  EXPECT_EQ(x.size(1), 3 * 256 + 2 + 4 + 12 + 3);
  expect_close(heads_of(*model, o), by_hand.heads(x));
}

// The gradient of every parameter equals that of the plain operations.
TEST(MultiInputTest, GradientsEqualThoseOfPlainOperations) {
  torch::manual_seed(4);
  const auto model =
      make_random({.name = "multi-input", .hidden = {24, 12}, .cnn = CnnKind::kImpala});
  const auto o = observations();
  const auto toward_policy = at::randn({kRows, kChoices}), toward_value = at::randn({kRows});
  const auto gradients = [&](const Heads& heads) {
    const auto loss = (heads.policy * toward_policy).sum() + (heads.value * toward_value).sum();
    return torch::autograd::grad({loss}, model->parameters());
  };
  const auto out = model->forward({.observation = o, .state = {}, .is_first = {}});
  const auto found = gradients({out.policy, out.value});
  const ByHand by_hand(*model, "");
  const auto expected = gradients(by_hand.heads(by_hand.features(
      o, [&](int number, const at::Tensor& x) { return by_hand.impala(number, x); })));
  for (std::size_t i = 0; i < found.size(); ++i)
    EXPECT_LT(off(found[i], expected[i]), 1e-4) << model->named_parameters()[i].key();
}

TEST(MultiInputTest, MemoryReadsTheHiddenLayers) {
  torch::manual_seed(5);
  for (const auto kind : {MemoryKind::kLstm, MemoryKind::kGru}) {
    const auto model = make_random({.name = "multi-input",
                                    .hidden = {24},
                                    .memory = kind,
                                    .memory_size = 16,
                                    .memory_sees_previous = false});
    const auto o = observations();
    torch::NoGradGuard no_grad;
    const ByHand by_hand(*model, "trunk.");
    const auto x =
        by_hand
            .linear("trunk.0", by_hand.features(o,
                                                [&](int number, const at::Tensor& picture) {
                                                  return by_hand.plain(number, picture,
                                                                       number == 0
                                                                           ? std::vector{4, 2, 1}
                                                                           : std::vector{1, 2});
                                                }))
            .tanh();
    const auto parts = model->state()[0].shape[0];
    const auto out = model->forward({.observation = o,
                                     .state = at::zeros({kRows, parts, 16}),
                                     .is_first = at::ones({kRows}, at::kBool)});
    const auto h = at::zeros({kRows, 16}, at::kDouble);
    const auto weights = std::vector{by_hand.p("memory_weight_ih"), by_hand.p("memory_weight_hh"),
                                     by_hand.p("memory_bias_ih"), by_hand.p("memory_bias_hh")};
    const auto next =
        kind == MemoryKind::kLstm
            ? std::get<0>(at::lstm_cell(x, {h, h}, weights[0], weights[1], weights[2], weights[3]))
            : at::gru_cell(x, h, weights[0], weights[1], weights[2], weights[3]);
    expect_close({out.policy, out.value}, {by_hand.linear("policy_head", next),
                                           by_hand.linear("value_head", next).squeeze(1)});
  }
}

TEST(MultiInputTest, Bfloat16IsCloseAndParametersStayFloat32) {
  torch::manual_seed(6);
  const auto options = [](Precision precision) {
    return ModelOptions{.name = "multi-input", .cnn = CnnKind::kImpala, .precision = precision};
  };
  const auto exact = make_model(every_kind(), kChoices, options(Precision::kFloat32), 1);
  const auto rounded = make_model(every_kind(), kChoices, options(Precision::kBf16), 1);
  const auto o = observations();
  const auto expected = heads_of(*exact, o), found = heads_of(*rounded, o);
  EXPECT_LT(off(found.value, expected.value), 0.05);
  EXPECT_EQ(at::equal(found.value, expected.value), !has_fast_bf16());
  const auto out = rounded->forward({.observation = o, .state = {}, .is_first = {}});
  for (const auto& gradient :
       torch::autograd::grad({out.value.sum() + out.policy.sum()}, rounded->parameters()))
    EXPECT_EQ(gradient.scalar_type(), at::kFloat);
}

TEST(MultiInputTest, AutoChoosesByTheObservation) {
  const auto name = [](const NamedSpecs& observation, CnnKind cnn = CnnKind::kAuto) {
    return model_for(observation, {.name = "auto", .cnn = cnn});
  };
  const ArraySpec vector{.shape = {4}};
  EXPECT_EQ(name(vector), "mlp");
  EXPECT_EQ(name({{"a", vector}, {"b", ArraySpec{.dtype = DType::kInt64}}}), "mlp");
  EXPECT_EQ(name(ArraySpec{.shape = {9, 9}}), "mlp") << "a table of real numbers";
  EXPECT_EQ(name(bytes({128})), "mlp");
  EXPECT_EQ(name(bytes({6, 84})), "mlp");
  EXPECT_EQ(name(bytes({84, 84}, 4)), "nature-cnn");
  EXPECT_EQ(name(bytes({3, 36, 40})), "nature-cnn");
  EXPECT_EQ(name(bytes({3, 36, 40}), CnnKind::kImpala), "multi-input");
  EXPECT_EQ(name(bytes({3, 35, 40})), "multi-input");
  EXPECT_EQ(name(bytes({8, 8})), "multi-input");
  EXPECT_EQ(name(ArraySpec{.shape = {3, 84, 84}}), "multi-input");
  EXPECT_EQ(name({{"a", bytes({84, 84})}, {"b", vector}}), "multi-input");
  EXPECT_EQ(model_for(bytes({84, 84}), {.name = "mlp"}), "mlp") << "only auto chooses";
}

TEST(MultiInputTest, EverySizeFromEightByEightOn) {
  for (const auto cnn : {CnnKind::kAuto, CnnKind::kImpala})
    for (const std::int64_t side : {8, 9, 15, 35, 36, 64})
      EXPECT_NO_THROW(make_model(bytes({3, side, side}), 2, {.name = "multi-input", .cnn = cnn}, 1))
          << side;
}

TEST(MultiInputTest, MistakesAreNamed) {
  const auto message = [](const NamedSpecs& observation, const ModelOptions& options) {
    return message_of([&] { make_model(observation, 2, options, 1); });
  };
  const auto expect = [](const std::string& text, const char* part) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
  };
  expect(message(ArraySpec{.shape = {4}}, {.name = "multi-input"}), "found no picture");
  expect(message(bytes({20, 20}), {.name = "multi-input", .cnn = CnnKind::kNature}),
         "20 x 20 pixels, expected at least 36 x 36");
  const auto layers = [](std::vector<std::int64_t> list) {
    return ModelOptions{
        .name = "multi-input", .cnn = CnnKind::kLayers, .cnn_layers = std::move(list)};
  };
  expect(message(bytes({20, 20}), layers({})), "found 0 numbers");
  expect(message(bytes({20, 20}), layers({32, 3})), "found 2 numbers");
  expect(message(bytes({20, 20}), layers({32, 3, 0})), "stride 0");
  expect(message(bytes({20, 20}), layers({32, 8, 4, 32, 5, 1})), "nothing is left");
  expect(message(ArraySpec{.shape = {4}}, {.name = "auto", .precision = Precision::kBf16}),
         "has no picture");
  expect(message(ArraySpec{.shape = {4}}, {.name = "auto", .cnn = CnnKind::kImpala}),
         "model.cnn: found convolutions");
}

// Pixels of 0 and 1 are read as those of 0 and 255.
TEST(MultiInputTest, DividesPixelsByTheirHighestValue) {
  torch::manual_seed(9);
  for (const auto cnn : {CnnKind::kAuto, CnnKind::kImpala}) {
    const auto make = [&](double high) {
      auto picture = bytes({3, 10, 9});
      picture.high = high;
      return make_model(picture, kChoices, {.name = "multi-input", .cnn = cnn}, 1);
    };
    const auto pixels = at::randint(0, 2, {kRows, 3, 10, 9}, at::kByte);
    const auto low = heads_of(*make(1), Observed{pixels, {}});
    const auto high = heads_of(*make(255), Observed{pixels * 255, {}});
    EXPECT_TRUE(at::allclose(low.policy, high.policy, 1e-4, 1e-6));
    EXPECT_TRUE(at::allclose(low.value, high.value, 1e-4, 1e-6));
  }
}

}  // namespace
}  // namespace shoal::multi_input_test
