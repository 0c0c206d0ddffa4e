#include <gtest/gtest.h>
#include <torch/torch.h>

#include "shoal/core/error.h"
#include "shoal/models/actor_critic.h"
#include "tests/models/model_inputs.h"

namespace shoal {
namespace {

using Hidden = std::vector<std::int64_t>;

std::shared_ptr<ActorCriticModel> make_random_mlp(const NamedSpecs& observation,
                                                  std::int64_t policy_size, const Hidden& hidden,
                                                  bool shared_trunk) {
  auto model =
      make_model(observation, policy_size, {.hidden = hidden, .shared_trunk = shared_trunk}, 1);
  randomize(*model);
  return model;
}

void expect_equal(const Heads& a, const Heads& b, double tolerance) {
  ASSERT_EQ(a.policy.sizes(), b.policy.sizes());
  ASSERT_EQ(a.value.sizes(), b.value.sizes());
  EXPECT_LT((a.policy - b.policy).abs().max().item<double>(), tolerance);
  EXPECT_LT((a.value - b.value).abs().max().item<double>(), tolerance);
}

// The network step by step in double precision, with gradients.
struct ByHand {
  explicit ByHand(const ActorCriticModel& model) {
    for (const auto& item : model.named_parameters())
      parameters.insert(item.key(), item.value().detach().to(at::kDouble).requires_grad_());
  }
  at::Tensor through(const std::string& trunk, at::Tensor x) {
    for (int l = 0; parameters.contains(fmt::format("{}{}.weight", trunk, l)); ++l)
      x = layer(fmt::format("{}{}", trunk, l), x).tanh();
    return x;
  }
  Heads heads(const at::Tensor& x) {
    const auto shared = through("trunk", x.to(at::kDouble));
    return {layer("policy_head", through("policy", shared)),
            layer("value_head", through("value", shared)).squeeze(1)};
  }
  at::Tensor layer(const std::string& name, const at::Tensor& x) {
    return at::linear(x, parameters[name + ".weight"], parameters[name + ".bias"]);
  }
  torch::OrderedDict<std::string, at::Tensor> parameters;
};

TEST(MlpTest, ForwardAndGradientsEqualTheLayersInDoublePrecision) {
  torch::manual_seed(6);
  for (const bool shared : {false, true}) {
    for (const auto& hidden : {Hidden{}, Hidden{64, 64}, Hidden{5, 3, 9}}) {
      SCOPED_TRACE(fmt::format("{} hidden layers, shared: {}", hidden.size(), shared));
      const auto model = make_random_mlp(ArraySpec{.shape = {6}}, 5, hidden, shared);
      ByHand expected(*model);
      const auto x = at::randn({50, 6});
      const auto out =
          model->forward({.observation = Observed{x, {}}, .state = {}, .is_first = {}});
      const auto want = expected.heads(x);
      expect_equal({out.policy, out.value}, want, 5e-6);
      (out.policy.square().sum() + out.value.square().sum()).backward();
      (want.policy.square().sum() + want.value.square().sum()).backward();
      for (const auto& item : model->named_parameters()) {
        const auto wanted = expected.parameters[item.key()].grad();
        const auto error = (item.value().grad() - wanted).abs().max() / wanted.abs().max();
        EXPECT_LT(error.item<double>(), 1e-5) << item.key();
      }
    }
  }
}

TEST(MlpTest, ActingNetworkEqualsForward) {
  torch::manual_seed(1);
  for (const bool shared : {false, true}) {
    for (const auto& hidden : {Hidden{}, Hidden{1}, Hidden{64, 64}, Hidden{5, 3, 9}, Hidden{33}}) {
      SCOPED_TRACE(fmt::format("{} hidden layers, shared: {}", hidden.size(), shared));
      const auto model = make_random_mlp(ArraySpec{.shape = {6}}, 5, hidden, shared);
      const auto acting = model->make_acting_network(Precision::kFloat32);
      for (const std::int64_t rows : {1, 4, 16, 3}) {
        const Observed x{at::randn({rows, 6}), {}};
        expect_equal(heads_of(*acting, x, 5), heads_of(*model, x), 5e-6);
      }
    }
  }
}

TEST(MlpTest, ARowOfTheActingNetworkDoesNotDependOnItsBatch) {
  torch::manual_seed(2);
  for (const bool shared : {false, true}) {
    const auto model = make_random_mlp(ArraySpec{.shape = {4}}, 2, {64, 64}, shared);
    const auto acting = model->make_acting_network(Precision::kFloat32);
    const Observed x{at::randn({33, 4}), {}};
    const auto whole = heads_of(*acting, x, 2);
    for (std::int64_t n = 1; n <= 33; ++n) {
      const auto part = heads_of(*acting, x.narrow(33 - n, n), 2);
      ASSERT_TRUE(at::equal(part.policy, whole.policy.narrow(0, 33 - n, n))) << n;
      ASSERT_TRUE(at::equal(part.value, whole.value.narrow(0, 33 - n, n))) << n;
    }
  }
}

// Many rows are spread over threads.
TEST(MlpTest, ARowOfTheActingNetworkDoesNotDependOnThreads) {
  torch::manual_seed(5);
  const auto threads = at::get_num_threads();
  for (const bool shared : {false, true}) {
    const auto model = make_random_mlp(ArraySpec{.shape = {4}}, 3, {64, 64}, shared);
    const auto acting = model->make_acting_network(Precision::kFloat32);
    for (const std::int64_t rows : {64, 65, 200, 257}) {
      const Observed x{at::randn({rows, 4}), {}};
      at::set_num_threads(1);
      const auto alone = heads_of(*acting, x, 3);
      expect_equal(alone, heads_of(*model, x), 5e-6);
      at::set_num_threads(4);
      const auto together = heads_of(*acting, x, 3);
      EXPECT_TRUE(at::equal(alone.policy, together.policy)) << rows;
      EXPECT_TRUE(at::equal(alone.value, together.value)) << rows;
    }
  }
  at::set_num_threads(threads);
}

TEST(MlpTest, PolicyAndValueShareTheTrunkOrNot) {
  for (const bool shared : {false, true}) {
    const auto model = make_random_mlp(ArraySpec{.shape = {3}}, 2, {8}, shared);
    const auto out = model->forward(
        {.observation = Observed{at::randn({4, 3}), {}}, .state = {}, .is_first = {}});
    out.value.sum().backward();
    int touched = 0;
    for (const auto& item : model->named_parameters())
      if (item.value().grad().defined()) ++touched;
    EXPECT_EQ(touched, 4) << "the value head and the layer below it";
    EXPECT_EQ(model->parameters().size(), shared ? 6u : 8u);
  }
}

TEST(MlpTest, ReadsAllFieldsSideBySide) {
  torch::manual_seed(3);
  const NamedSpecs specs = {
      {"image", ArraySpec{.dtype = DType::kUInt8, .shape = {2, 3}, .stack = 4}},
      {"pose", ArraySpec{.shape = {3}}},
      {"speed", ArraySpec{.dtype = DType::kFloat64}}};
  const Observed image = random_images(7, 4, {2, 3}), pose{at::randn({7, 3}), {}};
  const Observed speed{at::randn({7}, at::kDouble), {}};
  const Observations fields = {{"image", image}, {"pose", pose}, {"speed", speed}};
  const auto side_by_side = at::cat(
      {image.dense().flatten(1).to(at::kFloat), pose.data, speed.data.unsqueeze(1).to(at::kFloat)},
      1);

  const auto model = make_random_mlp(specs, 3, {16}, false);
  const auto plain = make_model(ArraySpec{.shape = {4 * 6 + 3 + 1}}, 3, {.hidden = {16}}, 1);
  {
    torch::NoGradGuard no_grad;
    for (auto& item : model->named_parameters()) {
      if (item.value().size(-1) == 28) item.value().narrow(1, 0, 24).div_(100);  // bytes are large
      plain->named_parameters()[item.key()].copy_(item.value());
    }
  }
  const auto acting = model->make_acting_network(Precision::kFloat32);
  expect_equal(heads_of(*acting, fields, 3), heads_of(*model, fields), 5e-6);
  expect_equal(heads_of(*plain, Observed{side_by_side, {}}), heads_of(*model, fields), 1e-5);
}

// The third of five choices is the third of five inputs; with one that is too large to be one of a
// few, and with bounds that say nothing, it stays a number.
TEST(MlpTest, AChoiceIsAnInputOfItsOwn) {
  const NamedSpecs specs = {
      {"choices", ArraySpec{.dtype = DType::kInt64, .shape = {2}, .low = -1, .high = 3}},
      {"large", ArraySpec{.dtype = DType::kInt64, .shape = {}, .low = 0, .high = 1e9}},
      {"free", ArraySpec{.dtype = DType::kInt64, .shape = {}}}};
  const auto model = make_random_mlp(specs, 3, {8}, false);
  const auto acting = model->make_acting_network(Precision::kFloat32);
  Observations x;
  x.add("choices", Observed{at::tensor({-1, 1, 3, 0}, at::kLong).view({2, 2}), {}});
  x.add("large", Observed{at::tensor({5, 1000}, at::kLong), {}});
  x.add("free", Observed{at::tensor({-7, 2}, at::kLong), {}});
  const auto inputs = at::tensor({1., 0., 0., 0., 0., /**/ 0., 0., 1., 0., 0., /**/ 5.,    -7.,  //
                                  0., 0., 0., 0., 1., /**/ 0., 1., 0., 0., 0., /**/ 1000., 2.})
                          .view({2, 12});
  const auto want = ByHand(*model).heads(inputs);
  expect_equal(heads_of(*model, x), want, 1e-3);
  expect_equal(heads_of(*acting, x, 3), want, 1e-3);
}

TEST(MlpTest, RefreshTakesTheNewParameters) {
  torch::manual_seed(4);
  for (const bool shared : {false, true}) {
    const auto model = make_random_mlp(ArraySpec{.shape = {4}}, 2, {8, 8}, shared);
    const auto acting = model->make_acting_network(Precision::kFloat32);
    const Observed x{at::randn({5, 4}), {}};
    heads_of(*acting, x, 2);
    randomize(*model);
    acting->refresh();
    expect_equal(heads_of(*acting, x, 2), heads_of(*model, x), 5e-6);
  }
}

TEST(MlpTest, ALayerNeedsUnits) {
  EXPECT_THROW(make_model(ArraySpec{.shape = {4}}, 2, {.hidden = {64, 0}}, 1), Error);
  EXPECT_THROW(make_model(ArraySpec{.shape = {4}}, 2, {.hidden = {-3}}, 1), Error);
}

}  // namespace
}  // namespace shoal
