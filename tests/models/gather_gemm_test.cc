#include "src/models/gather_gemm.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

namespace shoal {
namespace {

std::vector<std::int64_t> every(std::int64_t rows, std::int64_t distance) {
  std::vector<std::int64_t> offsets;
  for (std::int64_t r = 0; r < rows; ++r) offsets.push_back(r * distance);
  return offsets;
}

using FloatGemm = GatherGemm<float>;
using IntGemm = GatherGemm<std::int16_t>;

FloatGemm make(const at::Tensor& weight, const at::Tensor& bias, RowLayout row, bool relu) {
  return {
      weight.const_data_ptr<float>(), bias.const_data_ptr<float>(), weight.size(0), row, relu, 0};
}

template <class Number>
at::Tensor run(const GatherGemm<Number>& gemm, const typename GatherGemm<Number>::Input& input,
               const std::vector<std::int64_t>& offsets) {
  at::Tensor y =
      at::empty({static_cast<std::int64_t>(offsets.size()), gemm.row_of_y()}, at::kFloat);
  gemm.run(input, offsets, y.data_ptr<float>());
  return y;
}

at::Tensor run(const FloatGemm& gemm, const at::Tensor& x,
               const std::vector<std::int64_t>& offsets) {
  return run(gemm, FloatGemm::Input{x.const_data_ptr<float>()}, offsets);
}

TEST(GatherGemmTest, DenseRowsEqualTheProductInDoublePrecision) {
  torch::manual_seed(1);
  for (const std::int64_t rows : {1, 2, 5, 6, 7, 20}) {
    for (const std::int64_t out : {1, 16, 33}) {
      for (const bool relu : {false, true}) {
        constexpr std::int64_t kIn = 37;
        const auto x = at::randn({rows, kIn}), weight = at::randn({out, kIn}),
                   bias = at::randn({out});
        const auto y = run(make(weight, bias, {.length = kIn}, relu), x, every(rows, kIn));
        auto expected =
            at::addmm(bias.to(at::kDouble), x.to(at::kDouble), weight.to(at::kDouble).t());
        if (relu) expected = expected.relu();
        ASSERT_TRUE(at::allclose(y.narrow(1, 0, out).to(at::kDouble), expected, 1e-5, 1e-5))
            << rows << " rows, " << out << " outputs";
      }
    }
  }
}

TEST(GatherGemmTest, PatchesOfAnImageMakeAConvolution) {
  torch::manual_seed(2);
  constexpr std::int64_t kHeight = 13, kWidth = 11, kChannels = 3, kSize = 4, kStride = 2,
                         kOut = 20;
  const auto image = at::randn({1, kChannels, kHeight, kWidth});
  const auto weight = at::randn({kOut, kChannels, kSize, kSize}), bias = at::randn({kOut});
  const auto expected =
      at::conv2d(image.to(at::kDouble), weight.to(at::kDouble), bias.to(at::kDouble), kStride)[0]
          .permute({1, 2, 0})
          .flatten(0, 1);
  std::vector<std::int64_t> patches;
  for (std::int64_t y = 0; y + kSize <= kHeight; y += kStride)
    for (std::int64_t x = 0; x + kSize <= kWidth; x += kStride)
      patches.push_back((y * kWidth + x) * kChannels);
  const RowLayout row{.segments = kSize, .length = kSize * kChannels, .stride = kWidth * kChannels};
  const auto gemm = make(weight.permute({0, 2, 3, 1}).contiguous(), bias, row, false);
  const auto y = run(gemm, image.permute({0, 2, 3, 1}).contiguous(), patches);
  EXPECT_TRUE(at::allclose(y.narrow(1, 0, kOut).to(at::kDouble), expected, 1e-5, 1e-5));
}

TEST(GatherGemmTest, ARowDoesNotDependOnItsBatchNorABlockOnTheOthers) {
  torch::manual_seed(3);
  constexpr std::int64_t kRows = 17, kIn = 100, kOut = 40;
  const auto x = at::randn({kRows, kIn}), weight = at::randn({kOut, kIn}), bias = at::randn({kOut});
  const auto gemm = make(weight, bias, {.length = kIn}, true);
  const auto all = run(gemm, x, every(kRows, kIn));
  for (std::int64_t r = 0; r < kRows; ++r)
    EXPECT_TRUE(at::equal(run(gemm, x[r], {0})[0], all[r])) << "row " << r;
  auto in_parts = at::empty_like(all);
  for (std::int64_t block = 0; block < gemm.blocks(); ++block)
    gemm.run({x.const_data_ptr<float>()}, every(kRows, kIn), in_parts.data_ptr<float>(), block,
             block + 1);
  EXPECT_TRUE(at::equal(in_parts, all));
}

TEST(GatherGemmTest, IntegersAreAsExactAsBfloat16) {
  torch::manual_seed(4);
  constexpr std::int64_t kIn = 3136, kOut = 33;
  constexpr std::int16_t kMax = 4095;
  for (const std::int64_t rows : {1, 6, 20}) {
    const auto x = at::randn({rows, kIn}).relu() * at::rand({rows, 1}) * 10,
               weight = at::randn({kOut, kIn}) * at::rand({kOut, 1}), bias = at::randn({kOut});
    const IntGemm gemm(weight.const_data_ptr<float>(), bias.const_data_ptr<float>(), kOut,
                       {.length = kIn}, false, kMax);
    auto integers = at::empty({rows, kIn}, at::kShort);
    std::vector<float> scale;
    for (std::int64_t r = 0; r < rows; ++r)
      scale.push_back(to_integers(x[r].const_data_ptr<float>(), kIn, kMax,
                                  integers[r].data_ptr<std::int16_t>()));
    const IntGemm::Input input{integers.const_data_ptr<std::int16_t>(), scale.data(), 1};
    const auto y = run(gemm, input, every(rows, kIn)).narrow(1, 0, kOut).to(at::kDouble);
    auto product = [&](const at::Tensor& a, const at::Tensor& b) {
      return at::addmm(bias.to(at::kDouble), a.to(at::kDouble), b.to(at::kDouble).t());
    };
    const auto exact = product(x, weight);
    const auto rounded = product(x.to(at::kBFloat16), weight.to(at::kBFloat16));
    EXPECT_LT((y - exact).norm().item<double>(), (rounded - exact).norm().item<double>()) << rows;
  }
}

// Every product as large as can be: one bit more, and the sum of 32 bits would turn negative.
TEST(GatherGemmTest, SumsOfIntegersDoNotOverflow) {
  for (const auto& [length, max] :
       {std::pair<std::int64_t, std::int16_t>{256, 255}, {3136, 4095}}) {
    const auto weight = at::ones({2, length}) * at::tensor({0.5F, -0.5F}).view({2, 1});
    const auto bias = at::zeros({2});
    const IntGemm gemm(weight.const_data_ptr<float>(), bias.const_data_ptr<float>(), 2,
                       {.length = length}, false, max);
    const std::vector<std::int16_t> x(static_cast<std::size_t>(length), max);
    const float scale = 1;
    const auto y = run(gemm, IntGemm::Input{x.data(), &scale}, {0});
    const double expected = 0.5 * static_cast<double>(length) * max;
    EXPECT_NEAR(y[0][0].item<double>(), expected, 1e-2 * expected);
    EXPECT_NEAR(y[0][1].item<double>(), -expected, 1e-2 * expected);
  }
}

TEST(GatherGemmTest, InputsKeepZeroAndTheLargest) {
  for (const std::int64_t n : {1, 7, 8, 21}) {
    const auto y = at::arange(n, at::kFloat) * 0.37F;
    std::vector<std::int16_t> x(static_cast<std::size_t>(n));
    const float scale = to_integers(y.const_data_ptr<float>(), n, std::int16_t{4095}, x.data());
    EXPECT_EQ(x.front(), 0);
    EXPECT_EQ(x.back(), n > 1 ? 4095 : 0);
    for (std::int64_t i = 0; i < n; ++i)
      EXPECT_NEAR(x[static_cast<std::size_t>(i)] * scale, y[i].item<float>(), 0.51 * scale + 1e-6);
  }
}

}  // namespace
}  // namespace shoal
