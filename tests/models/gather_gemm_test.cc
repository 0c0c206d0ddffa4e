#include "src/models/gather_gemm.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cmath>

#include "tests/support/special_values.h"

namespace shoal {
namespace {

using Offsets = std::vector<std::int64_t>;

Offsets every(std::int64_t rows, std::int64_t distance) {
  Offsets offsets;
  for (std::int64_t r = 0; r < rows; ++r) offsets.push_back(r * distance);
  return offsets;
}

// Rows of x at `offsets`, and of y one after the other.
std::vector<GatherGemm::Place> places(const GatherGemm& gemm, const Offsets& offsets) {
  std::vector<GatherGemm::Place> rows;
  for (const auto offset : offsets)
    rows.push_back({offset, static_cast<std::int64_t>(rows.size()) * gemm.row_of_y()});
  return rows;
}

GatherGemm make(const at::Tensor& weight, const at::Tensor& bias, RowLayout row, bool relu) {
  return {weight.const_data_ptr<float>(), bias.const_data_ptr<float>(), weight.size(0), row, relu};
}

at::Tensor run(const GatherGemm& gemm, const at::Tensor& x, const Offsets& offsets) {
  auto y = at::empty({static_cast<std::int64_t>(offsets.size()), gemm.row_of_y()}, at::kFloat);
  gemm.run(x.const_data_ptr<float>(), places(gemm, offsets), y.data_ptr<float>());
  return y;
}

TEST(GatherGemmTest, DenseRowsEqualTheProductInDoublePrecision) {
  torch::manual_seed(1);
  for (const std::int64_t rows : {1, 2, 5, 6, 7, 11, 12, 13, 20, 25}) {
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

// Hence processors with FMA act the same, whatever the width of their vectors.
TEST(GatherGemmTest, SumsAreRoundedInTheOrderOfTheInputs) {
  if (!GatherGemm::is_fast()) GTEST_SKIP() << "this processor rounds products as well";
  torch::manual_seed(6);
  constexpr std::int64_t kRows = 25, kIn = 37, kOut = 33;
  const auto x = at::randn({kRows, kIn}), weight = at::randn({kOut, kIn}), bias = at::randn({kOut});
  const auto y = run(make(weight, bias, {.length = kIn}, false), x, every(kRows, kIn));
  const auto xs = x.accessor<float, 2>(), ws = weight.accessor<float, 2>(),
             ys = y.accessor<float, 2>();
  const auto bs = bias.accessor<float, 1>();
  for (std::int64_t r = 0; r < kRows; ++r) {
    for (std::int64_t o = 0; o < kOut; ++o) {
      float sum = bs[o];
      for (std::int64_t i = 0; i < kIn; ++i) sum = std::fma(ws[o][i], xs[r][i], sum);
      ASSERT_EQ(ys[r][o], sum) << "row " << r << ", output " << o;
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
  Offsets patches;
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
    gemm.run(x.const_data_ptr<float>(), places(gemm, every(kRows, kIn)), in_parts.data_ptr<float>(),
             block, block + 1);
  EXPECT_TRUE(at::equal(in_parts, all));
}

TEST(GatherGemmTest, SpecialValuesAreThoseOfTensors) {
  const auto special = testing::special_values();
  const auto n = special.size(0);
  for (const bool relu : {false, true}) {
    const auto gemm = make(at::ones({16, 1}), at::zeros({16}), {.length = 1}, relu);
    const auto y = run(gemm, special, every(n, 1)).select(1, 3);
    EXPECT_TRUE(testing::alike(y, relu ? special.relu() : special, 1e-45)) << y;
  }
}

}  // namespace
}  // namespace shoal
