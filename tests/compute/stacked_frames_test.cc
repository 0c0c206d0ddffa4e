#include "src/models/stacked_frames.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cmath>
#include <limits>

#include "tests/compute/machines.h"
#include "tests/models/model_inputs.h"

namespace shoal::stack_kernel_test {
namespace {

using Shape = std::vector<std::int64_t>;

struct Form {
  at::ScalarType dtype;
  bool channels_last;
  float scale;
};

class StackKernelTest : public KernelTest {
 protected:
  // [N, channels, H, W] from the kernel, in the requested layout.
  at::Tensor stacked(const Observed& o, const Form& form) const {
    const auto data = there(o.data);
    const auto index = o.stacked() ? there(o.index) : at::Tensor();
    const auto stack = o.stacked() ? o.index.size(1) : 1;
    const auto planes = o.data.dim() == 4 ? o.data.size(1) : 1;
    const auto H = o.data.size(-2), W = o.data.size(-1), channels = stack * planes;
    auto out = form.channels_last ? filled({o.size(), H, W, channels}, form.dtype)
                                  : filled({o.size(), channels, H, W}, form.dtype);
    const StackedFrames in{
        .frame = data.const_data_ptr<std::uint8_t>(),
        .index = o.stacked() ? index.const_data_ptr<std::int64_t>() : nullptr,
        .out = out.data_ptr(),
        .type = form.dtype == at::kFloat ? PixelType::kFloat32 : PixelType::kBfloat16,
        .channels_last = form.channels_last,
        .scale = form.scale,
        .N = o.size(),
        .stack = stack,
        .planes = planes,
        .pixels = H * W};
    EXPECT_EQ(kernels().stack_frames(in, nullptr), nullptr);
    return (form.channels_last ? out.permute({0, 3, 1, 2}) : out).cpu();
  }
  // Bitwise equal, on the GPU, too: the values are products, rounded once.
  void expect_exact(const Observed& o) const {
    for (const auto dtype : {at::kFloat, at::kBFloat16}) {
      for (const float scale : {1.0F, 1.0F / 255}) {
        const auto wanted = images(o, at::kFloat).mul(scale).to(dtype);
        for (const bool channels_last : {true, false}) {
          const auto found = stacked(o, {dtype, channels_last, scale});
          EXPECT_TRUE(at::equal(found, wanted))
              << found.sizes() << " " << dtype << " scale " << scale << " last " << channels_last;
        }
      }
    }
  }
};

SHOAL_ON_BOTH_MACHINES(StackKernelTest);

TEST_P(StackKernelTest, FourGreyFrames) {
  torch::manual_seed(1);
  for (const auto& shape : {Shape{84, 84}, Shape{5, 7}, Shape{1, 1}, Shape{1, 129}})
    for (const std::int64_t n : {1, 3, 20}) expect_exact(random_images(n, 4, shape));
}

TEST_P(StackKernelTest, OtherStacksAndSinglePictures) {
  torch::manual_seed(2);
  for (const int stack : {1, 2, 3, 5}) expect_exact(random_images(6, stack, {9, 11}));
}

TEST_P(StackKernelTest, FramesInColour) {
  torch::manual_seed(3);
  for (const int stack : {1, 3, 4}) expect_exact(random_images(5, stack, {3, 6, 10}));
}

TEST_P(StackKernelTest, MoreObservationsThanAGridHasRows) {
  torch::manual_seed(4);
  const auto o = random_images(70'000, 4, {1, 2});
  EXPECT_TRUE(at::equal(stacked(o, {at::kFloat, true, 1}), images(o, at::kFloat)));
}

TEST_P(StackKernelTest, NoObservations) {
  const Observed none{at::zeros({3, 4, 5}, at::kByte), at::zeros({0, 4}, at::kLong)};
  EXPECT_EQ(stacked(none, {at::kFloat, true, 1}).numel(), 0);
}

std::uint16_t by_torch(float x) { return c10::BFloat16(x).x; }

TEST(Bfloat16Test, RoundsAsTorchDoes) {
  for (std::uint32_t upper = 0; upper < 1 << 16; ++upper) {
    for (const std::uint32_t lower : {0U, 1U, 0x7FFFU, 0x8000U, 0x8001U, 0xFFFFU}) {
      const auto bits = upper << 16 | lower;
      float x = 0;
      std::memcpy(&x, &bits, sizeof(x));
      if (std::isnan(x)) continue;
      ASSERT_EQ(to_bfloat16(x).bits, by_torch(x)) << x;
    }
  }
}

}  // namespace
}  // namespace shoal::stack_kernel_test
