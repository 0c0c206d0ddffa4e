#include "src/models/stacked_frames.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include "tests/models/model_inputs.h"

namespace shoal {
namespace {

using Shape = std::vector<std::int64_t>;

// [N, channels, H, W] by way of the whole stack.
at::Tensor by_dense(const Observed& o) {
  const auto x = o.dense();
  return x.reshape({x.size(0), -1, x.size(-2), x.size(-1)}).to(at::kFloat);
}

void expect_exact(const Observed& o) {
  for (const auto dtype : {at::kFloat, at::kBFloat16, at::kByte}) {
    const auto x = images(o, dtype);
    const auto expected = by_dense(o);
    ASSERT_EQ(x.scalar_type(), dtype);
    ASSERT_EQ(x.sizes(), expected.sizes());
    EXPECT_TRUE(at::equal(x.to(at::kFloat), expected)) << x.sizes() << " " << dtype;
    EXPECT_TRUE(x.is_contiguous(at::MemoryFormat::ChannelsLast)) << x.sizes() << " " << dtype;
  }
}

// 16 pixels are done at a time: sizes below, of, and between multiples of that.
TEST(StackedFramesTest, FourFramesEqualTheDenseStack) {
  torch::manual_seed(1);
  for (const auto& shape : {Shape{84, 84}, Shape{5, 7}, Shape{1, 1}, Shape{3, 5}, Shape{4, 4},
                            Shape{1, 17}, Shape{36, 41}})
    for (const std::int64_t n : {1, 3, 20}) expect_exact(random_images(n, 4, shape));
}

TEST(StackedFramesTest, OneAtATimeEqualsAllTogether) {
  torch::manual_seed(5);
  for (const auto& shape : {Shape{84, 84}, Shape{5, 7}, Shape{1, 17}}) {
    const auto o = random_images(3, 4, shape);
    const auto all = images(o, at::kFloat).permute({0, 2, 3, 1});
    ASSERT_TRUE(FourFrames::fits(o));
    const FourFrames frames(o);
    for (std::int64_t n = 0; n < 3; ++n) {
      auto floats = at::empty({shape[0], shape[1], 4}, at::kFloat);
      auto bytes = at::empty({shape[0], shape[1], 4}, at::kByte);
      frames.write(n, floats.data_ptr<float>());
      frames.write(n, bytes.data_ptr<std::uint8_t>());
      EXPECT_TRUE(at::equal(floats, all[n]));
      EXPECT_TRUE(at::equal(bytes.to(at::kFloat), all[n]));
    }
  }
}

TEST(StackedFramesTest, OtherStacksEqualTheDenseStack) {
  torch::manual_seed(2);
  for (const int stack : {2, 3, 5}) expect_exact(random_images(6, stack, {9, 11}));
}

TEST(StackedFramesTest, PlainAndColourImagesEqualTheDenseStack) {
  torch::manual_seed(3);
  expect_exact(random_images(6, 1, {9, 11}));
  expect_exact(random_images(6, 1, {3, 9, 11}));
  expect_exact(random_images(6, 4, {3, 9, 11}));
  expect_exact(random_images(6, 2, {3, 8, 8}));
}

TEST(StackedFramesTest, ReadsFramesThatAreNotContiguous) {
  torch::manual_seed(4);
  auto o = random_images(5, 4, {6, 10});
  const Observed gaps{at::stack({o.data, o.data.bitwise_not()}, 3).select(3, 0),
                      at::stack({o.index, o.index}, 2).select(2, 0)};
  ASSERT_FALSE(gaps.data.is_contiguous());
  ASSERT_FALSE(gaps.index.is_contiguous());
  EXPECT_TRUE(at::equal(images(gaps, at::kFloat), images(o, at::kFloat)));
}

TEST(StackedFramesTest, EveryByteIsExactInAllTypes) {
  const auto all = at::arange(256, at::kInt).to(at::kByte).view({1, 16, 16});
  const Observed o{all, at::zeros({1, 4}, at::kLong)};
  for (const auto dtype : {at::kFloat, at::kBFloat16, at::kByte})
    EXPECT_TRUE(
        at::equal(images(o, dtype)[0][2].to(at::kInt).flatten(), at::arange(256, at::kInt)));
}

}  // namespace
}  // namespace shoal
