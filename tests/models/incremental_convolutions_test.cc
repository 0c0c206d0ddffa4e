#include "src/models/incremental_convolutions.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include "tests/support/special_values.h"

namespace shoal {
namespace {

using Layers = std::vector<IncrementalConvolutions::Layer>;
using Memory = IncrementalConvolutions::Memory;

Layers nature_layers(std::int64_t channels) {
  auto layer = [](std::int64_t out, std::int64_t size, std::int64_t in, std::int64_t stride) {
    return IncrementalConvolutions::Layer{at::randn({out, size, size, in}) / 16,
                                          at::randn({out}) / 4, stride};
  };
  return {layer(32, 8, channels, 4), layer(64, 4, 32, 2), layer(64, 3, 64, 1)};
}

at::Tensor run(const IncrementalConvolutions& c, const at::Tensor& image, Memory& memory,
               at::Tensor features) {
  c.run(image.const_data_ptr<std::uint8_t>(), memory, features.data_ptr<float>());
  return features;
}

at::Tensor from_scratch(const IncrementalConvolutions& c, const at::Tensor& image) {
  Memory memory;
  return run(c, image, memory, at::empty({c.features()}));
}

TEST(IncrementalConvolutionsTest, AFirstImageIsConvolvedWhole) {
  torch::manual_seed(1);
  for (const auto& [height, width, channels] :
       {std::array<std::int64_t, 3>{84, 84, 4}, {36, 41, 1}, {50, 39, 12}}) {
    const auto layers = nature_layers(channels);
    const IncrementalConvolutions c(layers, height, width);
    const auto image = at::randint(0, 256, {height, width, channels}, at::kByte);
    auto x = image.permute({2, 0, 1}).unsqueeze(0).to(at::kDouble);
    for (const auto& [weight, bias, stride] : layers)
      x = at::conv2d(x, weight.permute({0, 3, 1, 2}).to(at::kDouble), bias.to(at::kDouble), stride)
              .relu();
    const auto expected = x[0].permute({1, 2, 0}).flatten();
    const auto off = (from_scratch(c, image).to(at::kDouble) - expected).abs().max();
    EXPECT_LT(off.item<double>(), 1e-5 * expected.abs().max().item<double>());
  }
}

// Boxes appear, vanish and move, at the edges too; sometimes nothing changes, or everything.
TEST(IncrementalConvolutionsTest, ASequenceEqualsImagesFromScratchBitForBit) {
  torch::manual_seed(2);
  for (const auto& [height, width, channels, bf16] :
       {std::array<std::int64_t, 4>{84, 84, 4, false}, {84, 84, 4, true}, {37, 42, 12, false}}) {
    const IncrementalConvolutions c(nature_layers(channels), height, width, bf16 != 0);
    auto image = at::randint(0, 256, {height, width, channels}, at::kByte);
    Memory memory;
    auto features = at::empty({c.features()});
    auto below = [](std::int64_t n) { return at::randint(0, n, {1}).item<std::int64_t>(); };
    for (int step = 0; step < 60; ++step) {
      const auto kind = below(10);
      if (kind == 0) image = at::randint(0, 256, {height, width, channels}, at::kByte);
      if (kind > 1) {
        const auto y = below(height), x = below(width);
        image.narrow(0, y, std::min<std::int64_t>(height - y, 1 + below(6)))
            .narrow(1, x, std::min<std::int64_t>(width - x, 1 + below(6)))
            .select(2, below(channels))
            .add_(1 + below(200));
      }
      run(c, image, memory, features);
      ASSERT_TRUE(at::equal(features, from_scratch(c, image))) << "step " << step;
    }
  }
}

// Every single pixel matters, and reaches every output that reads it.
TEST(IncrementalConvolutionsTest, OnePixelAnywhereIsNoticed) {
  torch::manual_seed(3);
  const IncrementalConvolutions c(nature_layers(1), 44, 44);
  auto image = at::randint(0, 256, {44, 44, 1}, at::kByte);
  Memory memory;
  auto features = at::empty({c.features()});
  for (std::int64_t y = 0; y < 44; y += 3) {
    for (std::int64_t x = 0; x < 44; ++x) {
      image[y][x][0].bitwise_not_();
      run(c, image, memory, features);
      ASSERT_TRUE(at::equal(features, from_scratch(c, image))) << y << ", " << x;
    }
  }
}

// In the weights: pixels are whole numbers.
TEST(IncrementalConvolutionsTest, SpecialValuesAreThoseOfTensors) {
  torch::manual_seed(5);
  const auto special = testing::special_values();
  for (std::int64_t i = 0; i < special.size(0); ++i) {
    auto layers = nature_layers(1);
    layers[0].bias[3] = special[i];
    const IncrementalConvolutions c(layers, 36, 36);
    const auto image = at::randint(0, 256, {36, 36, 1}, at::kByte);
    auto x = image.permute({2, 0, 1}).unsqueeze(0).to(at::kDouble);
    for (const auto& [weight, bias, stride] : layers)
      x = at::conv2d(x, weight.permute({0, 3, 1, 2}).to(at::kDouble), bias.to(at::kDouble), stride)
              .relu();
    EXPECT_TRUE(testing::alike(from_scratch(c, image), x[0].permute({1, 2, 0}).flatten(), 1e-2))
        << special[i].item<float>();
  }
}

}  // namespace
}  // namespace shoal
