#include "src/models/mlp_kernel.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cfloat>
#include <cmath>
#include <cstring>
#include <limits>

#include "src/core/cpu_features.h"
#include "tests/support/special_values.h"

namespace shoal {
namespace {

struct Layer {
  at::Tensor weight, bias;
  bool tanh;
};

// Layers of these widths with tanh between them, and after the last one if asked for.
std::vector<Layer> make_layers(const std::vector<std::int64_t>& widths, bool tanh_last) {
  std::vector<Layer> layers;
  for (std::size_t l = 0; l + 1 < widths.size(); ++l) {
    const double scale = 1.5 / std::sqrt(static_cast<double>(widths[l]));
    layers.push_back({at::randn({widths[l + 1], widths[l]}) * scale, at::randn({widths[l + 1]}),
                      tanh_last || l + 2 < widths.size()});
  }
  return layers;
}

MlpKernel make_kernel(const std::vector<Layer>& layers) {
  MlpKernel kernel;
  for (const auto& [weight, bias, tanh] : layers)
    kernel.add_layer(weight.data_ptr<float>(), bias.data_ptr<float>(), weight.size(1),
                     weight.size(0), tanh);
  return kernel;
}

at::Tensor run(MlpKernel& kernel, const at::Tensor& x, std::int64_t out) {
  // One extra number, to check that nothing is written beyond the result.
  auto y = at::full({x.size(0) * out + 1}, 7.0F);
  kernel.run(x.data_ptr<float>(), x.size(0), y.data_ptr<float>());
  EXPECT_EQ(y[-1].item<float>(), 7.0F);
  return y.narrow(0, 0, x.size(0) * out).view({x.size(0), out});
}

at::Tensor in_double(const std::vector<Layer>& layers, at::Tensor x) {
  x = x.to(at::kDouble);
  for (const auto& [weight, bias, tanh] : layers) {
    x = at::linear(x, weight.to(at::kDouble), bias.to(at::kDouble));
    if (tanh) x = x.tanh();
  }
  return x;
}

const std::vector<std::vector<std::int64_t>> kWidths = {
    {4, 64, 64, 2},    {4, 64, 64, 1}, {1, 1},      {3, 7, 5, 1},     {17, 33, 9},
    {8, 8, 8},         {100, 31, 40},  {5, 128, 6}, {2, 256, 256, 3}, {40, 65, 97, 31},
    {6, 32, 24, 16, 8}};

TEST(MlpKernelTest, EqualsLinearLayersAndTanh) {
  torch::manual_seed(1);
  for (const auto& widths : kWidths) {
    for (const bool tanh_last : {false, true}) {
      const auto layers = make_layers(widths, tanh_last);
      auto kernel = make_kernel(layers);
      for (const std::int64_t rows : {1, 2, 7, 8, 9, 21}) {
        const auto x = at::randn({rows, widths.front()});
        const auto error = (run(kernel, x, widths.back()) - in_double(layers, x)).abs().max();
        EXPECT_LT(error.item<double>(), 5e-6) << widths << ", " << rows << " rows";
      }
    }
  }
}

TEST(MlpKernelTest, ARowDoesNotDependOnItsBatch) {
  torch::manual_seed(2);
  constexpr std::int64_t kRows = 33;
  for (const auto& widths : kWidths) {
    auto kernel = make_kernel(make_layers(widths, false));
    const auto x = at::randn({kRows, widths.front()});
    const auto whole = run(kernel, x, widths.back());
    for (std::int64_t n = 1; n <= kRows; ++n) {
      for (const auto from : {std::int64_t{0}, (kRows - n) / 2, kRows - n}) {
        const auto part = run(kernel, x.narrow(0, from, n).contiguous(), widths.back());
        const auto bytes = static_cast<std::size_t>(part.numel()) * sizeof(float);
        ASSERT_EQ(std::memcmp(part.data_ptr(), whole[from].data_ptr(), bytes), 0)
            << widths << ": rows " << from << " to " << from + n;
      }
    }
  }
}

// Many rows are worked through in pieces.
TEST(MlpKernelTest, ManyRowsEqualFew) {
  torch::manual_seed(6);
  for (const auto& widths : kWidths) {
    auto kernel = make_kernel(make_layers(widths, true));
    const auto x = at::randn({1001, widths.front()});
    const auto whole = run(kernel, x, widths.back());
    for (const std::int64_t from : {0, 7, 500, 990}) {
      const auto part = run(kernel, x.narrow(0, from, 11).contiguous(), widths.back());
      EXPECT_TRUE(at::equal(part, whole.narrow(0, from, 11))) << widths << " from " << from;
    }
  }
}

// tanh alone: one input, one output, weight 1.
at::Tensor tanh_of(const at::Tensor& x) {
  auto kernel = make_kernel({{at::ones({1, 1}), at::zeros({1}), true}});
  return run(kernel, x.view({-1, 1}), 1).flatten();
}

TEST(MlpKernelTest, TanhIsCloseEverywhere) {
  const auto x = at::arange(-200'000, 200'001, at::kDouble).mul_(1e-4).to(at::kFloat);
  const auto y = tanh_of(x);
  const auto error = (y - x.to(at::kDouble).tanh()).abs();
  EXPECT_LT(error.max().item<double>(), 2e-7) << "at " << x[error.argmax()].item<float>();
  EXPECT_LE(y.abs().max().item<float>(), 1.0F);
  EXPECT_TRUE(at::equal(tanh_of(-x), -y)) << "it is not odd";
}

TEST(MlpKernelTest, TanhOfExtremesIsFinite) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const std::vector<float> far = {9.1F, 15.0F, 15.1F,   44.0F,    88.8F,
                                  1e4F, 1e30F, FLT_MAX, kInfinity};
  const std::vector<float> near = {0.0F, FLT_TRUE_MIN, FLT_MIN, 1e-30F, 1e-12F, 1e-8F, 6e-8F};
  for (const float sign : {1.0F, -1.0F}) {
    const auto ones = tanh_of(at::tensor(far) * sign), zeros = tanh_of(at::tensor(near) * sign);
    for (std::int64_t i = 0; i < ones.size(0); ++i)
      EXPECT_NEAR(ones[i].item<float>(), sign, 2e-7) << far[static_cast<std::size_t>(i)];
    for (std::int64_t i = 0; i < zeros.size(0); ++i)
      EXPECT_NEAR(zeros[i].item<float>(), 0, 2e-7) << near[static_cast<std::size_t>(i)];
  }
}

TEST(MlpKernelTest, TanhInPlaceIsThatOfTheLayers) {
  const auto x = at::arange(-9, 9, 0.01).to(at::kFloat);
  const auto expected = tanh_of(x);
  for (const std::int64_t n : {0, 1, 7, 8, 9, 15, 16, 17, 1800}) {
    auto y = x.clone();
    tanh_in_place(y.data_ptr<float>(), n);
    EXPECT_TRUE(at::equal(y.narrow(0, 0, n), expected.narrow(0, 0, n))) << n;
    EXPECT_TRUE(at::equal(y.narrow(0, n, 1800 - n), x.narrow(0, n, 1800 - n))) << n;
  }
}

TEST(MlpKernelTest, ClearMakesRoomForOtherLayers) {
  torch::manual_seed(3);
  auto kernel = make_kernel(make_layers({5, 9, 3}, false));
  const auto x = at::randn({4, 2});
  kernel.clear();
  const auto layers = make_layers({2, 11, 6}, true);
  for (const auto& [weight, bias, tanh] : layers)
    kernel.add_layer(weight.data_ptr<float>(), bias.data_ptr<float>(), weight.size(1),
                     weight.size(0), tanh);
  EXPECT_TRUE(at::allclose(run(kernel, x, 6).to(at::kDouble), in_double(layers, x), 0, 5e-6));
}

TEST(MlpKernelTest, SaysWhichInstructionsItUses) {
  EXPECT_STREQ(MlpKernel::instructions(), has_avx512() ? "AVX-512"
                                          : has_avx2() ? "AVX2"
                                                       : "portable");
}

// Hence processors with FMA act the same, whatever the width of their vectors.
TEST(MlpKernelTest, SumsAreRoundedInTheOrderOfTheInputs) {
  if (!has_avx2()) GTEST_SKIP() << "this processor rounds products as well";
  torch::manual_seed(6);
  for (const std::int64_t out : {1, 8, 16, 24, 40, 64, 72, 136}) {
    constexpr std::int64_t kRows = 29, kIn = 37;
    const auto layers = make_layers({kIn, out}, false);
    auto kernel = make_kernel(layers);
    const auto x = at::randn({kRows, kIn}), y = run(kernel, x, out);
    const auto xs = x.accessor<float, 2>(), ws = layers[0].weight.accessor<float, 2>(),
               ys = y.accessor<float, 2>();
    const auto bs = layers[0].bias.accessor<float, 1>();
    for (std::int64_t r = 0; r < kRows; ++r) {
      for (std::int64_t o = 0; o < out; ++o) {
        float sum = bs[o];
        for (std::int64_t i = 0; i < kIn; ++i) sum = std::fma(ws[o][i], xs[r][i], sum);
        ASSERT_EQ(ys[r][o], sum) << "row " << r << ", output " << o << " of " << out;
      }
    }
  }
}

TEST(MlpKernelTest, SpecialValuesAreThoseOfTensors) {
  torch::manual_seed(7);
  const auto special = testing::special_values();
  EXPECT_TRUE(testing::alike(tanh_of(special), special.tanh(), 2e-7)) << tanh_of(special);
  for (const auto& widths : kWidths) {
    const auto layers = make_layers(widths, true);
    auto kernel = make_kernel(layers);
    auto x = at::randn({special.size(0), widths.front()});
    x.select(1, 0).copy_(special);
    EXPECT_TRUE(testing::alike(run(kernel, x, widths.back()), in_double(layers, x), 5e-6))
        << widths;
  }
}

}  // namespace
}  // namespace shoal
