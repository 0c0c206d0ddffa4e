#include "src/models/panel_kernels.h"

#include <ATen/cpu/Utils.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cmath>
#include <limits>

#include "src/core/cpu_features.h"
#include "src/models/panel_bf16.h"
#include "tests/support/special_values.h"

namespace shoal::panel_kernels_test {
namespace {

// For every instruction set of this CPU.
template <class Check>
void for_all(const Check& check) {
  for (const auto* kernels = all_panel_kernels(); *kernels; ++kernels) {
    SCOPED_TRACE((*kernels)->instructions);
    check(**kernels);
  }
}

template <class Check>
void for_all_bf16(const Check& check) {
  for (const auto* kernels : {panel_amx(), panel_avx512_bf16()}) {
    if (!kernels) continue;
    SCOPED_TRACE(kernels->instructions);
    check(*kernels);
  }
}

float* data(const at::Tensor& t) { return t.data_ptr<float>(); }

double furthest(const at::Tensor& a, const at::Tensor& b) {
  return (a - b).abs().max().item<double>();
}

TEST(PanelKernelsTest, BytesAreWidened) {
  for_all([](const PanelKernels& kernels) {
    const auto bytes = at::arange(256).to(at::kByte);
    for (const std::int64_t n : {1, 31, 256}) {
      const auto to = at::full({256}, -1.0F);
      kernels.widen(bytes.data_ptr<std::uint8_t>(), n, data(to));
      EXPECT_TRUE(at::equal(to.narrow(0, 0, n), at::arange(n).to(at::kFloat)));
      EXPECT_TRUE(to.narrow(0, n, 256 - n).eq(-1).all().item<bool>());
    }
  });
}

// a [rows][steps] times b [steps][kPanel].
PanelProduct product_of(const at::Tensor& a, const at::Tensor& b, const at::Tensor& c,
                        std::int64_t columns) {
  return {.a = data(a),
          .a_row = a.size(1),
          .a_step = 1,
          .steps = a.size(1),
          .b = data(b),
          .rows = a.size(0),
          .c = data(c),
          .columns = columns};
}

TEST(PanelKernelsTest, ProductsOfAllShapes) {
  torch::manual_seed(1);
  for_all([](const PanelKernels& kernels) {
    for (const std::int64_t rows : {1, 3, 12, 31}) {
      for (const std::int64_t columns : {1, 8, 17, 32}) {
        const std::int64_t steps = 19;
        const auto a = at::randn({rows, steps}), b = at::randn({steps, kPanel}),
                   bias = at::randn({rows}), mask = at::randn({rows, kPanel});
        auto c = at::full({rows, kPanel}, 7.0F);
        auto p = product_of(a, b, c, columns);
        p.bias = data(bias);
        p.relu = true;
        kernels.product(p);
        const auto want = at::mm(a, b) + bias.unsqueeze(1);
        EXPECT_LT(furthest(c.narrow(1, 0, columns), want.relu().narrow(1, 0, columns)), 1e-5);
        EXPECT_TRUE(c.narrow(1, columns, kPanel - columns).eq(7).all().item<bool>());
        p.relu = false;
        p.mask = data(mask);
        p.columns = kPanel;
        kernels.product(p);
        EXPECT_LT(furthest(c, want * mask.gt(0)), 1e-5);
        p.mask = p.bias = nullptr;
        p.add = true;
        c.copy_(mask);
        kernels.product(p);
        EXPECT_LT(furthest(c, mask + at::mm(a, b)), 1e-5);
      }
    }
  });
}

// Both layouts of the first factor, odd counts, and several blocks.
TEST(PanelKernelsTest, Bf16ProductsAreThoseOfRoundedFactors) {
  if (!panel_avx512_bf16()) GTEST_SKIP() << "this CPU has no instructions for bf16";
  torch::manual_seed(4);
  const auto rounded = [](const at::Tensor& t) { return t.to(at::kBFloat16).to(at::kFloat); };
  for_all_bf16([&](const PanelBf16& bf16) {
    for (const std::int64_t rows : {1, 12, 31, 48, 70}) {
      for (const std::int64_t columns : {1, 16, 17, 32}) {
        for (const auto& [steps, blocks] :
             {std::pair{1, 1}, {19, 1}, {64, 1}, {150, 1}, {32, 3}, {10, 2}}) {
          for (const bool transposed : {false, true}) {
            if (transposed && blocks > 1) continue;
            const auto a = at::randn({blocks, rows, steps}),
                       b = at::randn({blocks * steps, kPanel}), bias = at::randn({rows}),
                       mask = at::randn({rows, kPanel});
            const auto laid = transposed ? a[0].t().contiguous() : a;
            auto c = at::full({rows, kPanel}, 7.0F);
            PanelProduct p{.a = data(laid),
                           .a_row = transposed ? 1 : steps,
                           .a_step = transposed ? rows : 1,
                           .steps = steps,
                           .blocks = blocks,
                           .a_block = rows * steps,
                           .b = data(b),
                           .rows = rows,
                           .c = data(c),
                           .columns = columns};
            p.bias = data(bias);
            p.mask = data(mask);
            bf16.product(p);
            const auto want =
                (at::bmm(rounded(a), rounded(b).view({blocks, steps, kPanel})).sum(0) +
                 bias.unsqueeze(1)) *
                mask.gt(0);
            EXPECT_LT(furthest(c.narrow(1, 0, columns), want.narrow(1, 0, columns)), 1e-4);
            EXPECT_TRUE(c.narrow(1, columns, kPanel - columns).eq(7).all().item<bool>());
          }
        }
      }
    }
  });
}

// With factors of 8 bits errors reach 0.04 in these sums.
TEST(PanelKernelsTest, PreciseProductsHaveTheDigitsOfBothParts) {
  if (!panel_amx()) GTEST_SKIP() << "this CPU has no AMX";
  torch::manual_seed(6);
  for (const std::int64_t rows : {8, 12, 31, 70}) {
    for (const std::int64_t columns : {1, 17, 32}) {
      for (const std::int64_t steps : {1, 23, 64, 256}) {
        const auto a = at::randn({rows, steps}), b = at::randn({steps, kPanel}),
                   bias = at::randn({rows}), c = at::full({rows, kPanel}, 7.0F);
        auto p = product_of(a, b, c, columns);
        p.bias = data(bias);
        p.relu = true;
        panel_amx()->precise_product(p);
        const auto want = at::relu(at::mm(a, b) + bias.unsqueeze(1));
        EXPECT_LT(furthest(c.narrow(1, 0, columns), want.narrow(1, 0, columns)), 5e-4);
        EXPECT_TRUE(c.narrow(1, columns, kPanel - columns).eq(7).all().item<bool>());
      }
    }
  }
}

// Several panels of one product are as many products; the panels of c may lie side by side.
TEST(PanelKernelsTest, PanelsAreProductsOfTheirOwn) {
  torch::manual_seed(5);
  constexpr std::int64_t kRows = 45, kSteps = 40, kPanels = 3, kLast = 9;
  const auto a = at::randn({kRows, kSteps}), b = at::randn({kPanels, kSteps, kPanel}),
             mask = at::randn({kPanels, kRows, kPanel});
  const auto check = [&](void (*product)(const PanelProduct&)) {
    PanelProduct p{.a = data(a),
                   .a_row = kSteps,
                   .a_step = 1,
                   .steps = kSteps,
                   .b = data(b),
                   .rows = kRows,
                   .c = nullptr};
    auto each = at::full({kPanels, kRows, kPanel}, 7.0F);
    for (std::int64_t i = 0; i < kPanels; ++i) {
      p.b = data(b[i]), p.c = data(each[i]), p.mask = data(mask[i]);
      p.columns = i + 1 < kPanels ? kPanel : kLast;
      product(p);
    }
    auto all = at::full({kPanels, kRows, kPanel}, 7.0F);
    p.b = data(b), p.c = data(all), p.mask = data(mask);
    p.panels = kPanels, p.b_panel = kSteps * kPanel, p.c_panel = kRows * kPanel;
    product(p);
    EXPECT_TRUE(at::equal(all, each));
    auto rows = at::full({kRows, kPanels * kPanel}, 7.0F);
    p.c = data(rows), p.c_row = kPanels * kPanel, p.c_panel = kPanel, p.mask = nullptr;
    product(p);
    const auto found = rows.view({kRows, kPanels, kPanel}).transpose(0, 1);
    const auto kept = mask.gt(0).logical_and(each.ne(7));
    EXPECT_TRUE(at::equal(found.masked_select(kept), each.masked_select(kept)));
    EXPECT_TRUE(found[kPanels - 1].narrow(1, kLast, kPanel - kLast).eq(7).all().item<bool>());
  };
  for_all([&](const PanelKernels& kernels) { check(kernels.product); });
  for_all_bf16([&](const PanelBf16& kernels) {
    check(kernels.product);
    if (kernels.precise_product) check(kernels.precise_product);
  });
}

// A build that leaves the kernels out would pass every test of them.
TEST(PanelKernelsTest, AmxIsUsedWhereTheProcessorHasIt) {
  const auto all = at::cpu::get_cpu_capabilities();
  const auto found = all.find("amx_bf16");
  if (found == all.end() || !found->second.toBool() || !at::cpu::init_amx())
    GTEST_SKIP() << "this CPU has no AMX, or the operating system does not let it be used";
#if SHOAL_X86_KERNELS
  EXPECT_EQ(panel_bf16(), panel_amx());
  EXPECT_NE(panel_amx(), nullptr);
#else
  EXPECT_EQ(panel_amx(), nullptr);
#endif
}

TEST(PanelKernelsTest, DotsAndTranspositions) {
  torch::manual_seed(2);
  for_all([](const PanelKernels& kernels) {
    const auto g = at::randn({3, kPanel}), h = at::randn({3, 11, kPanel});
    auto to = at::empty({11}), sum = at::empty({1});
    kernels.dots({data(g), kPanel, data(h), 11 * kPanel, 3, 11, data(to)});
    EXPECT_LT(furthest(to, (h * g.unsqueeze(1)).sum(2).sum(0)), 1e-4);
    kernels.dots({data(g), kPanel, nullptr, 0, 3, 1, data(sum)});
    EXPECT_NEAR(sum.item<double>(), g.sum().item<double>(), 1e-4);
    for (const auto& [rows, columns] : {std::pair{kPanel, kPanel}, {1, 9}, {18, 7}, {33, 64}}) {
      const auto from = at::randn({rows, columns});
      auto turned = at::empty({columns, rows});
      kernels.transpose(data(from), rows, columns, data(turned));
      EXPECT_TRUE(at::equal(turned, from.t())) << rows << " by " << columns;
    }
  });
}

struct AdamTensors {
  const at::Tensor &parameter, &mean, &square, &gradient;
};

// A step without corrections for its number, and without a target.
void step_adam(const PanelKernels& kernels, float rate, float epsilon, const AdamTensors& t) {
  kernels.adam({.rate = rate,
                .root = 1,
                .epsilon = epsilon,
                .tau = 0,
                .n = t.parameter.numel(),
                .parameter = data(t.parameter),
                .mean = data(t.mean),
                .square = data(t.square),
                .gradient = data(t.gradient)});
}

TEST(PanelKernelsTest, AdamOfAnyCountAndWithoutATarget) {
  torch::manual_seed(3);
  for_all([](const PanelKernels& kernels) {
    for (const std::int64_t n : {1, 16, 37}) {
      auto x = at::randn({n}), target = at::randn({n}), m = at::zeros({n}), v = at::zeros({n});
      auto mine = x.clone().requires_grad_();
      auto followed = target.clone();
      torch::optim::Adam adam({mine}, torch::optim::AdamOptions(0.01));
      for (int t = 1; t <= 5; ++t) {
        const auto g = at::randn({n}) * 1e-3;
        mine.mutable_grad() = g;
        adam.step();
        const bool moves = t != 3;
        if (moves) followed.lerp_(mine.detach(), 0.1);
        kernels.adam({.rate = static_cast<float>(0.01 / (1 - std::pow(0.9, t))),
                      .root = static_cast<float>(1 / std::sqrt(1 - std::pow(0.999, t))),
                      .epsilon = 1e-8F,
                      .tau = 0.1F,
                      .n = n,
                      .parameter = data(x),
                      .mean = data(m),
                      .square = data(v),
                      .gradient = data(g),
                      .target = moves ? data(target) : nullptr});
        EXPECT_LT(furthest(x, mine.detach()), 1e-6);
        EXPECT_LT(furthest(target, followed), 1e-6);
      }
    }
    auto x = at::ones({1}), m = at::zeros({1}), v = at::zeros({1});
    const auto g = at::zeros({1});
    step_adam(kernels, 0.1F, 1e-8F, {x, m, v, g});
    EXPECT_EQ(x.item<float>(), 1) << "a gradient of 0 moves nothing";
  });
}

bool has_denormal(const at::Tensor& t) {
  const auto size = t.abs();
  return ((size > 0) & (size < std::numeric_limits<float>::min())).any().item<bool>();
}

// Denormal moments would make every later step slow.
TEST(PanelKernelsTest, MomentsWithoutAGradientAreNotDenormal) {
  for_all([](const PanelKernels& kernels) {
    const std::int64_t n = 20;
    auto x = at::ones({n}), m = at::full({n}, 1e-20F), v = at::full({n}, 1e-34F);
    m[3] = -1e-20F;
    const auto g = at::zeros({n});
    for (int t = 0; t < 20'000; ++t) step_adam(kernels, 0.1F, 1e-8F, {x, m, v, g});
    for (const auto& moment : {m, v}) {
      EXPECT_LT(moment.abs().max().item<float>(), 1e-36);
      EXPECT_FALSE(has_denormal(moment));
    }
    EXPECT_EQ(x.min().item<float>(), 1);
  });
}

TEST(PanelKernelsTest, AdamOfTheSmallestNumbers) {
  for_all([](const PanelKernels& kernels) {
    std::vector<float> sizes;
    for (int i = 40; i < 127; ++i) sizes.push_back(std::ldexp(1.1F, -i));
    const auto n = static_cast<std::int64_t>(sizes.size());
    auto x = at::zeros({n}), m = at::ones({n}), v = at::tensor(sizes);
    const auto g = m.clone() * 1e-20, want = m / (v * 0.999).sqrt();
    step_adam(kernels, -1, 1e-30F, {x, m, v, g});
    EXPECT_LT(furthest(x / (want * 0.9), at::ones({n})), 1e-6);
    volatile float smallest = std::numeric_limits<float>::min();
    EXPECT_GT(smallest / 2, 0) << "flushing has ended";
  });
}

// From numbers around 0 to those where 1 - tanh^2 is 0 in float32.
TEST(PanelKernelsTest, SquashedActionsAndTheirDensity) {
  const auto mean = at::linspace(-30, 30, 64).view({2, kPanel});
  const auto log_std = at::linspace(-22, 3, 64).view({2, kPanel});
  const auto out = at::cat({mean, log_std});
  const auto z = at::linspace(2, -2, 64).view({2, kPanel});
  const auto deviation = log_std.clamp(-20, 2).to(at::kDouble);
  const auto u = mean.to(at::kDouble) + deviation.exp() * z;
  const auto slope = 2 * (std::log(2) - u.abs() - (-2 * u.abs()).exp().log1p());
  const auto want = (-z.square() / 2 - deviation - 0.5 * std::log(2 * M_PI) - slope).sum(0);
  for_all([&](const PanelKernels& kernels) {
    auto action = at::empty({2, kPanel}), log_prob = at::empty({kPanel});
    kernels.squash({2, data(out), data(z), data(action), data(log_prob)});
    EXPECT_LT(furthest(action, u.tanh().to(at::kFloat)), 1e-6);
    EXPECT_LT(furthest(log_prob / want.to(at::kFloat), at::ones({kPanel})), 1e-5);
  });
}

TEST(PanelKernelsTest, NoiseIsNormalAndNamedByKeyAndNumber) {
  for_all([](const PanelKernels& kernels) {
    constexpr std::int64_t kMany = 1 << 18;
    auto z = at::empty({kMany}), other = at::empty({kMany}), few = at::empty({4 * kPanel});
    kernels.normal(5, 9, kMany, data(z));
    const auto moment = [&z](double power) { return z.pow(power).mean().item<double>(); };
    EXPECT_NEAR(moment(1), 0, 0.01);
    EXPECT_NEAR(moment(2), 1, 0.01);
    EXPECT_NEAR(moment(3), 0, 0.03);
    EXPECT_NEAR(moment(4), 3, 0.08);
    for (const std::int64_t lag : {1, 16, 32, 64, 128})
      EXPECT_NEAR(
          (z.narrow(0, 0, kMany - lag) * z.narrow(0, lag, kMany - lag)).mean().item<double>(), 0,
          0.01)
          << lag;
    kernels.normal(5, 9, 4 * kPanel, data(few));
    EXPECT_TRUE(at::equal(few, z.narrow(0, 0, 4 * kPanel)));
    kernels.normal(5, 10, kMany, data(other));
    EXPECT_NEAR((z * other).mean().item<double>(), 0, 0.01);
    kernels.normal(6, 9, kMany, data(other));
    EXPECT_NEAR((z * other).mean().item<double>(), 0, 0.01);
    panel_kernels().normal(5, 9, kMany, data(other));
    EXPECT_LT(furthest(z, other), 1e-5) << "not those of other instructions";
  });
}

// As many as a panel has, one for each row of it.
at::Tensor special_panel() {
  const auto special = testing::special_values();
  return at::cat({special, special}).narrow(0, 0, kPanel).contiguous();
}

TEST(PanelKernelsTest, SpecialValuesGoThroughProductsAsThroughTensors) {
  const auto special = special_panel(), ones = at::ones({kPanel}), threes = ones * 3;
  const auto each = special.unsqueeze(1).expand({kPanel, kPanel}).contiguous();
  constexpr double kTolerance = 1e-37;  // products of bf16 flush the smallest numbers
  auto c = at::empty({kPanel, kPanel});
  const auto check = [&](const auto& product) {
    PanelProduct p{.a = data(special),
                   .a_row = 1,
                   .a_step = 1,
                   .steps = 1,
                   .b = data(ones),
                   .rows = kPanel,
                   .c = data(c)};
    product(p);
    EXPECT_TRUE(testing::alike(c, each, kTolerance));
    p.relu = true;
    product(p);
    EXPECT_TRUE(testing::alike(c, each.relu(), kTolerance));
    p.relu = false;
    p.a = data(threes);
    p.mask = data(each);
    product(p);
    const auto wanted = at::threshold_backward(at::full_like(each, 3), each, 0);
    EXPECT_TRUE(testing::alike(c, wanted, kTolerance));
  };
  for_all([&](const PanelKernels& kernels) {
    check(kernels.product);
    auto sum = at::empty({1});
    for (std::int64_t i = 0; i < kPanel; ++i) {
      auto g = at::zeros({kPanel});
      g[i] = special[i];
      kernels.dots({data(g), kPanel, nullptr, 0, 1, 1, data(sum)});
      EXPECT_TRUE(testing::alike(sum, special.narrow(0, i, 1), kTolerance));
    }
  });
  for_all_bf16([&](const PanelBf16& bf16) { check(bf16.product); });
}

TEST(PanelKernelsTest, SpecialValuesAreSquashedAsByTensors) {
  const auto special = special_panel(), some = at::linspace(-1, 1, kPanel);
  constexpr double kHalfLogTwoPi = 0.91893853320467274;
  for_all([&](const PanelKernels& kernels) {
    auto action = at::empty({kPanel}), log_prob = at::empty({kPanel});
    for (int place = 0; place < 3; ++place) {
      const auto mean = place == 0 ? special : some, log_std = place == 1 ? special : some,
                 z = place == 2 ? special : some;
      const auto out = at::stack({mean, log_std});
      kernels.squash({1, data(out), data(z), data(action), data(log_prob)});
      const auto deviation = log_std.to(at::kDouble).clamp(kLeastLogStd, kMostLogStd);
      const auto u = mean.to(at::kDouble) + deviation.exp() * z;
      const auto slope = 2 * (std::log(2) - u.abs() - (-2 * u.abs()).exp().log1p());
      const auto want = -z.to(at::kDouble).square() / 2 - deviation - kHalfLogTwoPi - slope;
      EXPECT_TRUE(testing::alike(action, u.tanh(), 1e-6)) << place;
      EXPECT_TRUE(testing::alike(log_prob, want, 1e-5)) << place << log_prob << want;
      auto gradient = at::empty({2, kPanel});
      const auto of_action = at::ones({kPanel}), scale = at::ones({kPanel});
      kernels.squash_gradient({{1, data(out), data(z), data(action), data(log_prob)},
                               data(of_action),
                               data(scale),
                               0.2F,
                               data(gradient)});
      EXPECT_TRUE(gradient[1].isnan().logical_or(special.isnan().logical_not()).all().item<bool>());
    }
    for (const bool noisy : {false, true}) {
      const auto& mean = noisy ? some : special;
      kernels.tanh({1, data(mean), noisy ? data(special) : nullptr, 0.5F, 0.3F, data(action)});
      auto want = mean.tanh();
      if (noisy) want = (want + (special * 0.5).clamp(-0.3, 0.3)).clamp(-1, 1);
      EXPECT_TRUE(testing::alike(action, want, 1e-6)) << noisy;
    }
  });
}

TEST(PanelKernelsTest, SpecialGradientsGoThroughAdamAsThroughTorchs) {
  const auto special = special_panel();
  for_all([&](const PanelKernels& kernels) {
    auto x = at::ones({kPanel}), m = at::zeros({kPanel}), v = at::zeros({kPanel});
    auto theirs = at::ones({kPanel}).requires_grad_();
    torch::optim::Adam adam({theirs}, torch::optim::AdamOptions(0.01));
    theirs.mutable_grad() = special;
    adam.step();
    kernels.adam({.rate = 0.01F / 0.1F,
                  .root = 1 / std::sqrt(0.001F),
                  .epsilon = 1e-8F,
                  .tau = 0,
                  .n = kPanel,
                  .parameter = data(x),
                  .mean = data(m),
                  .square = data(v),
                  .gradient = data(special)});
    EXPECT_TRUE(testing::alike(x, theirs.detach(), 1e-5)) << x << theirs;
  });
}

}  // namespace
}  // namespace shoal::panel_kernels_test
