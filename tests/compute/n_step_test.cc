#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cmath>

#include "src/replays/step_store.h"
#include "tests/compute/machines.h"
#include "tests/compute/valued_rollout.h"
#include "tests/replays/history.h"
#include "tests/support/special_values.h"

namespace shoal::n_step_kernel_test {
namespace {

struct Returns {
  at::Tensor reward, discount, steps, target;
};

class NStepKernelTest : public KernelTest {
 protected:
  Returns by_kernel(const Samples& s, const at::Tensor& value, std::int64_t n, double gamma,
                    bool with_target) const {
    const RolloutThere inputs(s, value, [this](const at::Tensor& t) { return there(t); });
    Returns out{filled({s.T, s.B}), filled({s.T, s.B}), filled({s.T, s.B}, at::kInt),
                filled({s.T, s.B})};
    const NStep in{.rollout = inputs.rollout(),
                   .reward = out.reward.data_ptr<float>(),
                   .discount = out.discount.data_ptr<float>(),
                   .steps = out.steps.data_ptr<std::int32_t>(),
                   .target = with_target ? out.target.data_ptr<float>() : nullptr,
                   .gamma = gamma,
                   .n = n};
    EXPECT_EQ(kernels().n_step(in, nullptr), nullptr);
    return {out.reward.cpu(), out.discount.cpu(), out.steps.cpu(), out.target.cpu()};
  }
};

SHOAL_ON_BOTH_MACHINES(NStepKernelTest);

// Bitwise equal to a replay's, on the GPU, too: the computation contains no exp.
TEST_P(NStepKernelTest, EqualsWhatAReplayHolds) {
  for (const bool waits : {false, true}) {
    for (const std::int64_t T : {1, 2, 5, 60}) {
      for (const int n : {1, 2, 3, 5, 200}) {
        History history(1, waits, 100 * static_cast<std::uint64_t>(T) + static_cast<unsigned>(n));
        auto s = history.rollout(T);
        s.bootstrap_value = at::zeros({kEnvs});
        s.final_value = at::zeros({T, kEnvs});
        StepStore store(toy_spec(1), kEnvs, {.size = T * kEnvs, .n_step = n, .discount = 0.9});
        store.append(s);
        const auto found = by_kernel(s, at::zeros({T, kEnvs}), n, 0.9, false);
        for (std::int64_t t = 0; t < T; ++t) {
          for (std::int64_t b = 0; b < kEnvs; ++b) {
            const auto& wanted = store.follows(store.cell_of(t) + b);
            const auto what = fmt::format("T {}, n {}, step {} of {}", T, n, t, b);
            ASSERT_EQ(found.steps[t][b].item<int>(), wanted.steps) << what;
            ASSERT_EQ(found.reward[t][b].item<float>(), wanted.reward) << what;
            ASSERT_EQ(found.discount[t][b].item<float>(), wanted.discount) << what;
          }
        }
        EXPECT_TRUE(found.target.eq(77).all().item<bool>());
      }
    }
  }
}

// The return of step (t, b) by its definition.
double return_of(const Samples& s, const at::Tensor& value, std::int64_t t, std::int64_t b,
                 std::int64_t n, double gamma) {
  const auto valid = s.valid.accessor<bool, 2>(), terminated = s.terminated.accessor<bool, 2>(),
             truncated = s.truncated.accessor<bool, 2>();
  if (!valid[t][b]) return value[t][b].item<double>();
  double sum = 0;
  for (std::int64_t i = 0; i < n; ++i, ++t) {
    if (t == s.T) return sum + std::pow(gamma, i) * s.bootstrap_value[b].item<double>();
    if (!valid[t][b]) return sum + std::pow(gamma, i) * value[t][b].item<double>();
    sum += std::pow(gamma, i) * s.reward[t][b].item<double>();
    if (terminated[t][b]) return sum;
    if (truncated[t][b]) return sum + std::pow(gamma, i + 1) * s.final_value[t][b].item<double>();
  }
  const auto next = t == s.T ? s.bootstrap_value[b] : value[t][b];
  return sum + std::pow(gamma, n) * next.item<double>();
}

TEST_P(NStepKernelTest, ReturnsEqualTheDefinition) {
  torch::manual_seed(1);
  for (const auto& c : rollout_cases()) {
    for (const std::int64_t n : {1, 2, 5, 1000}) {
      const auto s = random_ends(c);
      const auto value = at::randn({c.T, c.B});
      const auto found = by_kernel(s, value, n, 0.97, true);
      auto wanted = at::empty({c.T, c.B});
      for (std::int64_t t = 0; t < c.T; ++t)
        for (std::int64_t b = 0; b < c.B; ++b) wanted[t][b] = return_of(s, value, t, b, n, 0.97);
      EXPECT_TRUE(at::allclose(found.target, wanted, 1e-4, 1e-4))
          << fmt::format("T {}, B {}, n {}", c.T, c.B, n);
    }
  }
}

TEST_P(NStepKernelTest, SpecialValuesAreThoseOfTheDefinition) {
  torch::manual_seed(2);
  const auto special = testing::special_values();
  const auto n = special.size(0);
  for (int place = 0; place < 3; ++place) {
    const auto s = random_ends({3, n, 0, 0});
    const auto value = at::randn({3, n});
    const auto& holds = place == 0 ? s.reward[1] : place == 1 ? value[2] : s.bootstrap_value;
    holds.copy_(special);
    const auto found = by_kernel(s, value, 2, 0.97, true);
    auto wanted = at::empty({3, n});
    for (std::int64_t t = 0; t < 3; ++t)
      for (std::int64_t b = 0; b < n; ++b) wanted[t][b] = return_of(s, value, t, b, 2, 0.97);
    EXPECT_TRUE(testing::alike(found.target, wanted, 1e-5)) << place;
  }
}

}  // namespace
}  // namespace shoal::n_step_kernel_test
