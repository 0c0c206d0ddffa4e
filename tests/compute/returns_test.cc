#include "shoal/algos/returns.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include "tests/compute/machines.h"
#include "tests/compute/valued_rollout.h"
#include "tests/support/fake_accelerator.h"
#include "tests/support/special_values.h"

namespace shoal::returns_kernel_test {
namespace {

// `inputs` and `out` are on the kernels' device.
Advantages gae_by(const CudaKernels& kernels, const RolloutThere& inputs, Advantages out,
                  double discount, double lambda) {
  const Gae in{.rollout = inputs.rollout(),
               .advantage = out.advantage.data_ptr<float>(),
               .target = out.target.data_ptr<float>(),
               .discount = discount,
               .lambda = lambda};
  EXPECT_EQ(kernels.gae(in, nullptr), nullptr);
  return {out.advantage.cpu(), out.target.cpu()};
}

class ReturnsKernelTest : public KernelTest {
 protected:
  RolloutThere there_with(const Samples& s, const at::Tensor& value) const {
    return {s, value, [this](const at::Tensor& t) { return there(t); }};
  }

  // Also compares the kernel's results bitwise with the same function on the CPU.
  Advantages gae(const Samples& s, const at::Tensor& value, double discount, double lambda) const {
    const std::int64_t shape[] = {s.T, s.B};
    const auto found =
        gae_by(kernels(), there_with(s, value), {filled(shape), filled(shape)}, discount, lambda);
    const RolloutThere here(s, value, [](const at::Tensor& t) { return t.contiguous(); });
    const auto wanted = gae_by(testing::kernels_on_the_cpu(), here,
                               {at::empty(shape), at::empty(shape)}, discount, lambda);
    EXPECT_TRUE(at::equal(found.advantage, wanted.advantage));
    EXPECT_TRUE(at::equal(found.target, wanted.target));
    return found;
  }

  VTrace vtrace_by_kernel(const Samples& s, const at::Tensor& value, const at::Tensor& log_ratio,
                          const VTraceOptions& o) const {
    const auto inputs = there_with(s, value);
    const auto ratio = there(log_ratio);
    VTrace out{filled({s.T, s.B}), filled({s.T, s.B}), filled({s.T, s.B})};
    const VTraceColumns in{.rollout = inputs.rollout(),
                           .log_ratio = ratio.const_data_ptr<float>(),
                           .target = out.target.data_ptr<float>(),
                           .advantage = out.advantage.data_ptr<float>(),
                           .rho = out.rho.data_ptr<float>(),
                           .discount = o.discount,
                           .lambda = o.lambda,
                           .rho_bar = o.rho_bar,
                           .c_bar = o.c_bar};
    EXPECT_EQ(kernels().vtrace(in, nullptr), nullptr);
    return {out.target.cpu(), out.advantage.cpu(), out.rho.cpu()};
  }
};

SHOAL_ON_BOTH_MACHINES(ReturnsKernelTest);

std::string named(const RolloutCase& c) {
  return fmt::format("T {}, B {}, ends {}, waits {}", c.T, c.B, c.ends, c.waits);
}

// Tensor operations may use fused multiply-add, hence the tolerance.
TEST_P(ReturnsKernelTest, AdvantagesEqualTheCpus) {
  torch::manual_seed(1);
  for (const auto& c : rollout_cases()) {
    for (const double discount : {0.0, 0.99, 1.0}) {
      for (const double lambda : {0.0, 0.95, 1.0}) {
        const auto s = random_ends(c);
        const auto value = at::randn({c.T, c.B});
        const auto wanted = generalized_advantages(s, value, discount, lambda);
        const auto found = gae(s, value, discount, lambda);
        EXPECT_TRUE(at::allclose(found.advantage, wanted.advantage, 1e-5, 1e-5)) << named(c);
        EXPECT_TRUE(at::allclose(found.target, wanted.target, 1e-5, 1e-5)) << named(c);
      }
    }
  }
}

// Not even infinite values pass from an episode to the one before it.
TEST_P(ReturnsKernelTest, NothingPassesTheEndOfAnEpisode) {
  for (const bool terminated : {true, false}) {
    auto s = random_ends({4, 2, 0, 0});
    (terminated ? s.terminated : s.truncated)[1].fill_(true);
    if (!terminated) s.final_value[1].fill_(2);
    s.reward.fill_(1);
    s.reward.slice(0, 2).fill_(std::numeric_limits<float>::infinity());
    const auto value = at::zeros({4, 2});
    const auto found = gae(s, value, 0.5, 1);
    const float last = terminated ? 1 : 2;
    EXPECT_TRUE(found.advantage[1].eq(last).all().item<bool>());
    EXPECT_TRUE(found.advantage[0].eq(1 + 0.5F * last).all().item<bool>());
    const auto traced = vtrace_by_kernel(s, value, at::zeros({4, 2}), {.discount = 0.5});
    EXPECT_TRUE(traced.target[1].eq(last).all().item<bool>());
    EXPECT_TRUE(traced.target[0].eq(1 + 0.5F * last).all().item<bool>());
  }
}

TEST_P(ReturnsKernelTest, VTraceEqualsTheCpus) {
  torch::manual_seed(2);
  for (const auto& c : rollout_cases()) {
    for (const auto& o : {VTraceOptions{}, VTraceOptions{0.9, 0.8, 1, 1},
                          VTraceOptions{1, 1, 0.7, 0.5}, VTraceOptions{0.95, 1, 10, 10}}) {
      const auto s = random_ends(c);
      const auto value = at::randn({c.T, c.B}), log_ratio = at::randn({c.T, c.B});
      const auto wanted = vtrace(outcomes(s), value, log_ratio, o);
      const auto found = vtrace_by_kernel(s, value, log_ratio, o);
      expect_same(found.rho, wanted.rho, named(c) + ", rho");
      expect_same(found.target, wanted.target, named(c) + ", target", 1e-4);
      expect_same(found.advantage, wanted.advantage, named(c) + ", advantage", 1e-4);
    }
  }
}

TEST_P(ReturnsKernelTest, EmptyRollouts) {
  for (const auto& c : {RolloutCase{0, 5, 0, 0}, RolloutCase{5, 0, 0, 0}}) {
    const auto s = random_ends(c);
    const auto value = at::zeros({c.T, c.B});
    EXPECT_EQ(gae(s, value, 1, 1).target.numel(), 0);
    EXPECT_EQ(vtrace_by_kernel(s, value, value, {}).target.numel(), 0);
  }
}

TEST_P(ReturnsKernelTest, SpecialValuesAreThoseOfTensors) {
  torch::manual_seed(3);
  const auto special = testing::special_values();
  const auto n = special.size(0);
  for (int place = 0; place < 4; ++place) {
    const auto s = random_ends({2, n, 0, 0});
    auto value = at::randn({2, n}), log_ratio = at::randn({2, n});
    const auto& holds = place == 0   ? s.reward[1]
                        : place == 1 ? value[1]
                        : place == 2 ? s.bootstrap_value
                                     : log_ratio[1];
    holds.copy_(special);
    const auto found =
        gae_by(kernels(), there_with(s, value), {filled({2, n}), filled({2, n})}, 0.9, 0.8);
    const auto wanted = generalized_advantages(s, value, 0.9, 0.8);
    EXPECT_TRUE(testing::alike(found.advantage, wanted.advantage, 1e-5)) << place;
    EXPECT_TRUE(testing::alike(found.target, wanted.target, 1e-5)) << place;
    // Its rows are not contiguous, so the tensor implementation is used.
    const auto turned = log_ratio.t().contiguous().t();
    const auto by_tensors = vtrace(outcomes(s), value, turned, {});
    for (const auto& traced :
         {vtrace_by_kernel(s, value, log_ratio, {}), vtrace(outcomes(s), value, log_ratio, {})}) {
      EXPECT_TRUE(testing::alike(traced.target, by_tensors.target, 1e-5)) << place;
      EXPECT_TRUE(testing::alike(traced.advantage, by_tensors.advantage, 1e-5)) << place;
      EXPECT_TRUE(testing::alike(traced.rho, by_tensors.rho, 1e-5)) << place;
    }
  }
}

}  // namespace
}  // namespace shoal::returns_kernel_test
