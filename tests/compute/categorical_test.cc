#include <gtest/gtest.h>
#include <torch/torch.h>

#include <numeric>

#include "src/agents/pg/head.h"
#include "tests/compute/machines.h"
#include "tests/support/special_values.h"

namespace shoal::categorical_kernel_test {
namespace {

using Sizes = std::vector<std::int64_t>;

struct Case {
  at::Tensor logits;  // [N, >= sum of choices]
  Sizes choices;
  Stored stored = Stored::kNumbers;
  at::Tensor mask = {};
  NoiseKey key = {};
  std::int64_t first_number = 0;
  bool greedy = false;
};

struct Acted {
  at::Tensor action, log_prob;
};

// The agent's result on the CPU.
Acted by_agent(const Case& c) {
  const auto N = c.logits.size(0), parts = static_cast<std::int64_t>(c.choices.size());
  const auto head = make_categorical_head(c.choices, c.stored);
  const Noise noise(c.key);
  // The head overwrites masked logits.
  const HeadIn in{.policy = c.logits.clone().narrow(1, 0, head->size()),
                  .mask = c.mask,
                  .noise = noise,
                  .first_number = c.first_number,
                  .greedy = c.greedy,
                  .by_rows = true};
  Acted out{at::zeros({N, parts}, c.stored == Stored::kBits ? at::kBool : at::kLong),
            at::full({N}, 0.5F)};
  at::Tensor raw;
  head->act(in, out.action, raw, out.log_prob);
  return out;
}

class CategoricalKernelTest : public KernelTest {
 protected:
  Acted by_kernel(const Case& c) const {
    const auto N = c.logits.size(0), parts = static_cast<std::int64_t>(c.choices.size());
    const auto logits = there(c.logits), choices = there(at::tensor(c.choices, at::kLong));
    const auto mask = c.mask.defined() ? there(c.mask) : at::Tensor();
    auto env_tick = at::empty({static_cast<std::int64_t>(c.key.rows.size()), 2}, at::kLong);
    for (std::size_t i = 0; i < c.key.rows.size(); ++i) {
      env_tick[static_cast<std::int64_t>(i)][0] = c.key.rows[i].env;
      env_tick[static_cast<std::int64_t>(i)][1] = c.key.rows[i].tick;
    }
    env_tick = there(env_tick);
    const bool bits = c.stored == Stored::kBits;
    Acted out{filled({N, parts}, bits ? at::kBool : at::kLong), there(at::full({N}, 0.5F))};
    const CategoricalRows in{
        .logits = logits.const_data_ptr<float>(),
        .stride = logits.size(1),
        .choices = choices.const_data_ptr<std::int64_t>(),
        .mask = mask.defined() ? mask.const_data_ptr<bool>() : nullptr,
        .seed = c.key.seed,
        .tick = c.key.tick,
        .first_env = c.key.first_env,
        .env_tick = c.key.rows.empty() ? nullptr : env_tick.const_data_ptr<std::int64_t>(),
        .first_number = c.first_number,
        .action = bits ? nullptr : out.action.data_ptr<std::int64_t>(),
        .bit = bits ? out.action.data_ptr<bool>() : nullptr,
        .log_prob = out.log_prob.data_ptr<float>(),
        .N = N,
        .parts = parts,
        .greedy = c.greedy};
    EXPECT_EQ(kernels().choose_categorical(in, nullptr), nullptr);
    return {out.action.cpu(), out.log_prob.cpu()};
  }

  // On a GPU, a random number within rounding of a boundary between two choices may select the
  // other one; at most one row in 1000, plus one.
  void expect_same_actions(const Case& c, const std::string& what) const {
    const auto wanted = by_agent(c), found = by_kernel(c);
    const auto differ = found.action.ne(wanted.action).any(1);
    const auto count = differ.sum().item<std::int64_t>();
    EXPECT_LE(count, exact() ? 0 : c.logits.size(0) / 1000 + 1) << what;
    expect_same(found.log_prob.masked_fill(differ, 0), wanted.log_prob.masked_fill(differ, 0),
                what);
  }
};

SHOAL_ON_BOTH_MACHINES(CategoricalKernelTest);

TEST_P(CategoricalKernelTest, ActsAsTheAgentDoes) {
  torch::manual_seed(1);
  for (const auto& choices :
       {Sizes{1}, Sizes{2}, Sizes{6}, Sizes{18}, Sizes{3, 1, 5}, Sizes{300}, Sizes(9, 4)}) {
    const auto size = std::accumulate(choices.begin(), choices.end(), std::int64_t{0});
    for (const std::int64_t N : {1, 33, 700}) {
      for (const double spread : {0.0, 1.0, 40.0}) {
        for (const bool masked : {false, true}) {
          for (const bool greedy : {false, true}) {
            Case c{.logits = at::randn({N, size + 2}) * spread, .choices = choices};
            if (masked) c.mask = at::rand({N, size}).lt(0.6);
            c.key = {.seed = 0x123456789ABCDEF, .tick = (std::int64_t{1} << 33) + N};
            c.key.first_env = 1000;
            c.first_number = 7;
            c.greedy = greedy;
            expect_same_actions(c,
                                fmt::format("{} parts of {}, N {}, spread {}, mask {}, greedy {}",
                                            choices.size(), choices[0], N, spread, masked, greedy));
          }
        }
      }
    }
  }
}

TEST_P(CategoricalKernelTest, Bits) {
  torch::manual_seed(2);
  const Case c{.logits = at::randn({500, 14}), .choices = Sizes(7, 2), .stored = Stored::kBits};
  expect_same_actions(c, "bits");
}

TEST_P(CategoricalKernelTest, RowsMayBeOfAnyEnvironmentAndTick) {
  torch::manual_seed(3);
  std::vector<NoiseKey::Row> rows;
  for (std::int64_t i = 0; i < 400; ++i) rows.push_back({.env = (i * 7) % 50, .tick = i / 3});
  const Case c{.logits = at::randn({400, 5}),
               .choices = {5},
               .key = {.seed = 5, .first_env = -1, .rows = rows}};
  expect_same_actions(c, "rows");
}

// The limits of 24 bits: the largest random number, and probabilities that underflow.
TEST_P(CategoricalKernelTest, AnActionWithoutAProbabilityIsNeverChosen) {
  for (const int n : {2, 5, 64}) {
    for (const int likely : {0, n / 2, n - 1}) {
      Case c{.logits = at::full({2000, n}, -200.0F), .choices = {n}};
      c.logits.select(1, likely).fill_(3);
      const auto acted = by_kernel(c);
      EXPECT_TRUE(acted.action.eq(likely).all().item<bool>());
      EXPECT_TRUE(acted.log_prob.eq(0.5F).all().item<bool>());
      expect_same_actions(c, fmt::format("{} of {}", likely, n));
    }
  }
}

TEST_P(CategoricalKernelTest, OneLegalChoiceAndNone) {
  torch::manual_seed(4);
  Case c{.logits = at::randn({300, 6}), .choices = {6}, .mask = at::zeros({300, 6}, at::kBool)};
  expect_same_actions(c, "none is legal: all alike");
  c.mask.select(1, 4).fill_(true);
  EXPECT_TRUE(by_kernel(c).action.eq(4).all().item<bool>());
  expect_same_actions(c, "one is legal");
}

TEST_P(CategoricalKernelTest, OfEqualOnesTheFirstIsTheMostLikely) {
  Case c{.logits = at::zeros({3, 4}), .choices = {4}, .greedy = true};
  EXPECT_TRUE(by_kernel(c).action.eq(0).all().item<bool>());
  c.logits.slice(1, 2).fill_(1);
  EXPECT_TRUE(by_kernel(c).action.eq(2).all().item<bool>());
}

// An action is chosen for any logits; NaN shows in its probability.
TEST_P(CategoricalKernelTest, OfSpecialLogitsTheProbabilityIsThatOfTensors) {
  torch::manual_seed(5);
  const auto special = testing::special_values();
  const auto n = special.size(0);
  for (std::int64_t place = 0; place < 4; ++place) {
    for (const bool greedy : {false, true}) {
      Case c{.logits = at::randn({n, 4}), .choices = {4}, .greedy = greedy};
      c.logits.select(1, place).copy_(special);
      for (const auto& [action, log_prob] : {by_kernel(c), by_agent(c)}) {
        ASSERT_TRUE(action.ge(0).logical_and(action.lt(4)).all().item<bool>());
        const auto wanted = at::log_softmax(c.logits, 1).gather(1, action).squeeze(1);
        EXPECT_TRUE(testing::alike(log_prob - 0.5, wanted, 1e-5)) << place << log_prob;
      }
    }
  }
}

}  // namespace
}  // namespace shoal::categorical_kernel_test
