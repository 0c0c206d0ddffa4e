#include "src/models/gather_gemm.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cmath>

#include "src/models/panel_bf16.h"
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
        const auto y = run(GatherGemm(weight, bias, {.length = kIn}, relu), x, every(rows, kIn));
        auto expected =
            at::addmm(bias.to(at::kDouble), x.to(at::kDouble), weight.to(at::kDouble).t());
        if (relu) expected = expected.relu();
        ASSERT_TRUE(at::allclose(y.narrow(1, 0, out).to(at::kDouble), expected, 1e-5, 1e-5))
            << rows << " rows, " << out << " outputs";
      }
    }
  }
}

at::Tensor rounded(const at::Tensor& t) { return t.to(at::kBFloat16).to(at::kDouble); }

// Rows of 37 numbers fill no tiles: only their weights are rounded.
TEST(GatherGemmTest, FactorsInBfloat16AreRoundedAndSumsAreNot) {
  torch::manual_seed(7);
  for (const std::int64_t rows : {1, 15, 16, 17, 32, 33, 70}) {
    for (const std::int64_t out : {1, 16, 33, 64}) {
      for (const std::int64_t in : {32, 37, 224}) {
        const auto x = at::randn({rows, in}), weight = at::randn({out, in}),
                   bias = at::randn({out});
        const GatherGemm gemm(weight, bias, {.length = in}, true, true);
        const auto y = run(gemm, x, every(rows, in));
        const auto factors = gemm.multiplies_bf16() ? rounded(x) : x.to(at::kDouble);
        const auto expected = at::addmm(bias.to(at::kDouble), factors, rounded(weight).t()).relu();
        // 224 products that are added one after another have been seen 3.4e-5 from the exact sum.
        const double largest_error = in == 224 && !gemm.multiplies_bf16() ? 5e-5 : 1e-5;
        ASSERT_TRUE(
            at::allclose(y.narrow(1, 0, out).to(at::kDouble), expected, 1e-5, largest_error))
            << rows << " rows, " << out << " outputs, " << in << " inputs";
        EXPECT_EQ(gemm.multiplies_bf16(), panel_amx() && in != 37);
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
  const auto y = run(GatherGemm(weight, bias, {.length = kIn}, false), x, every(kRows, kIn));
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
  constexpr std::int64_t kHeight = 13, kWidth = 11, kSize = 4, kStride = 2, kOut = 20;
  for (const auto& [channels, bf16] :
       {std::pair<std::int64_t, bool>{3, false}, {8, false}, {8, true}}) {
    auto image = at::randn({1, channels, kHeight, kWidth}),
         weight = at::randn({kOut, channels, kSize, kSize});
    if (bf16) image = rounded(image).to(at::kFloat), weight = rounded(weight).to(at::kFloat);
    const auto bias = at::randn({kOut});
    const auto expected =
        at::conv2d(image.to(at::kDouble), weight.to(at::kDouble), bias.to(at::kDouble), kStride)[0]
            .permute({1, 2, 0})
            .flatten(0, 1);
    Offsets patches;
    for (std::int64_t y = 0; y + kSize <= kHeight; y += kStride)
      for (std::int64_t x = 0; x + kSize <= kWidth; x += kStride)
        patches.push_back((y * kWidth + x) * channels);
    const RowLayout row{.segments = kSize, .length = kSize * channels, .stride = kWidth * channels};
    const GatherGemm gemm(weight.permute({0, 2, 3, 1}), bias, row, false, bf16);
    const auto y = run(gemm, image.permute({0, 2, 3, 1}).contiguous(), patches);
    EXPECT_TRUE(at::allclose(y.narrow(1, 0, kOut).to(at::kDouble), expected, 1e-5, 1e-5))
        << channels << " channels, bf16: " << bf16;
  }
}

TEST(GatherGemmTest, ARowDoesNotDependOnItsBatchNorABlockOnTheOthers) {
  torch::manual_seed(3);
  constexpr std::int64_t kRows = 37, kOut = 72;
  for (const auto& [in, bf16] : {std::pair<std::int64_t, bool>{100, false}, {96, true}}) {
    const auto x = at::randn({kRows, in}), weight = at::randn({kOut, in}), bias = at::randn({kOut});
    const GatherGemm gemm(weight, bias, {.length = in}, true, bf16);
    const auto all = run(gemm, x, every(kRows, in));
    for (std::int64_t r = 0; r < kRows; ++r)
      EXPECT_TRUE(at::equal(run(gemm, x[r], {0})[0], all[r])) << "row " << r;
    auto in_parts = at::empty_like(all);
    for (const auto& [from, to] : {std::pair{0, 1}, {1, 4}, {4, 5}})
      gemm.run(x.const_data_ptr<float>(), places(gemm, every(kRows, in)),
               in_parts.data_ptr<float>(), from, to);
    EXPECT_TRUE(at::equal(in_parts, all));
  }
}

TEST(GatherGemmTest, SpecialValuesAreThoseOfTensors) {
  const auto special = testing::special_values();
  const auto n = special.size(0);
  for (const bool relu : {false, true}) {
    const auto expected = relu ? special.relu() : special;
    const GatherGemm gemm(at::ones({16, 1}), at::zeros({16}), {.length = 1}, relu);
    const auto y = run(gemm, special, every(n, 1)).select(1, 3);
    EXPECT_TRUE(testing::alike(y, expected, 1e-45)) << y;

    const GatherGemm rough(at::ones({16, 32}), at::zeros({16}), {.length = 32}, relu, true);
    auto rows = at::zeros({n, 32});
    rows.select(1, 5) = special;
    EXPECT_TRUE(testing::alike(run(rough, rows, every(n, 32)).select(1, 3), expected, 1e-2));
  }
}

}  // namespace
}  // namespace shoal
