#include "src/models/convolution.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <limits>
#include <string>
#include <vector>

#include "shoal/core/error.h"
#include "src/models/amx_convolution.h"
#include "src/models/panel_bf16.h"
#include "src/models/winograd.h"

namespace shoal::convolution_test {
namespace {

double relative_error(const at::Tensor& found, const at::Tensor& expected) {
  EXPECT_EQ(found.sizes(), expected.sizes());
  return ((found - expected).abs().max() / expected.abs().max()).item<double>();
}

struct Sizes {
  std::int64_t images, channels, height, width, filters, size, stride;
};
const std::vector<Sizes> kSizes = {{5, 4, 84, 84, 32, 8, 4},   // those of Mnih et al. (2015)
                                   {5, 32, 20, 20, 64, 4, 2},  //
                                   {35, 64, 9, 9, 64, 3, 1},
                                   {2, 12, 47, 38, 32, 8, 4},  // pixels that no filter reads
                                   {1, 16, 6, 11, 96, 2, 1},   // three panels
                                   {70, 16, 3, 5, 32, 3, 1},   // fewer outputs than a tile has
                                   {9, 16, 12, 12, 32, 6, 2},  // cells of 2 x 2
                                   {3, 32, 5, 9, 96, 1, 1},    // one tap
                                   {2, 8, 17, 16, 32, 8, 2}};  // four taps across

// A way to compute the layer. error: of its outputs and their gradients, which are of this dtype.
struct Way {
  const char* name;
  bool (*fits)(const at::Tensor& x, const at::Tensor& weight, std::int64_t stride);
  at::Tensor (*convolution)(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                            std::int64_t stride);
  at::ScalarType dtype;
  double error;
};

struct Result {
  at::Tensor y, of_x, of_weight, of_bias;
};

struct Operands {
  explicit Operands(const Sizes& s)
      : stride(s.stride),
        x(at::randn({s.images, s.channels, s.height, s.width})
              .contiguous(at::MemoryFormat::ChannelsLast)),
        weight(at::randn({s.filters, s.channels, s.size, s.size})),
        bias(at::randn({s.filters})) {}

  bool fit(const Way& way) const { return way.fits(x.to(way.dtype), weight, stride); }

  // The loss is <y, gradient>. Outputs that a rounding error may push over the ReLU do not count.
  void make_gradient() {
    const auto sum =
        at::conv2d(x.to(at::kDouble), weight.to(at::kDouble), bias.to(at::kDouble), stride);
    gradient = (at::randn(sum.sizes()) * (sum.abs() > 0.1)).to(at::kBFloat16);
  }

  // y and its gradients by a function of x, weight and bias.
  template <class Convolution>
  Result by(const Convolution& convolution, const at::Tensor& in, const at::Tensor& w,
            const at::Tensor& b) {
    if (!gradient.defined()) make_gradient();
    const auto y = convolution(in, w, b);
    y.backward(gradient.to(y.scalar_type()));
    return {y.detach(), in.grad(), w.grad(), b.grad()};
  }
  static at::Tensor leaf(const at::Tensor& t, at::ScalarType dtype) {
    return t.scalar_type() == at::kByte ? t : t.detach().to(dtype, false, true).requires_grad_();
  }
  Result by(const Way& way) {
    EXPECT_TRUE(fit(way));
    return by([&](const auto& in, const auto& w,
                  const auto& b) { return way.convolution(in, w, b, stride); },
              leaf(x, way.dtype), leaf(weight, at::kFloat), leaf(bias, at::kFloat));
  }
  // In double precision, of x and weights as they are rounded by this way.
  Result exactly(const Way& way) {
    return by([&](const auto& in, const auto& w,
                  const auto& b) { return at::conv2d(in.to(at::kDouble), w, b, stride).relu(); },
              leaf(x.scalar_type() == at::kByte ? x : x.to(way.dtype), at::kDouble),
              leaf(weight.to(way.dtype), at::kDouble), leaf(bias, at::kDouble));
  }

  std::int64_t stride;
  at::Tensor x, weight, bias, gradient;
};

// Checks each way that this CPU has, with the sizes that fit it.
template <class Check>
void for_all(const Check& check) {
  const Way winograd{"Winograd", fits_winograd, winograd_convolution, at::kFloat, 1e-5};
  const Way amx{"AMX", fits_amx_convolution, amx_convolution, at::kBFloat16, 4e-3};
  for (const auto* way : {&winograd, &amx}) {
    if (way == &amx && !panel_amx()) continue;
    SCOPED_TRACE(way->name);
    for (std::size_t i = 0; i < kSizes.size(); ++i) {
      SCOPED_TRACE(std::to_string(kSizes[i].height) + " x " + std::to_string(kSizes[i].width));
      Operands operands(kSizes[i]);
      if (operands.fit(*way))
        check(*way, operands);
      else
        EXPECT_GE(i, 3U) << "the layers of Mnih et al. fit every way";
    }
  }
}

void expect_close(const Result& found, const Result& expected, const Way& way) {
  EXPECT_LT(relative_error(found.y, expected.y), way.error);
  EXPECT_EQ(found.of_x.defined(), expected.of_x.defined());
  if (found.of_x.defined()) {
    EXPECT_LT(relative_error(found.of_x, expected.of_x), way.error);
  }
  EXPECT_LT(relative_error(found.of_weight, expected.of_weight), 1e-5);
  EXPECT_LT(relative_error(found.of_bias, expected.of_bias), 1e-5);
}

void expect_equal(const Result& found, const Result& expected) {
  EXPECT_TRUE(at::equal(found.y, expected.y));
  EXPECT_TRUE(at::equal(found.of_x, expected.of_x));
  EXPECT_TRUE(at::equal(found.of_weight, expected.of_weight));
  EXPECT_TRUE(at::equal(found.of_bias, expected.of_bias));
}

TEST(ConvolutionTest, ValuesAndGradientsAreThoseInDoublePrecision) {
  torch::manual_seed(3);
  for_all([](const Way& way, Operands& operands) {
    expect_close(operands.by(way), operands.exactly(way), way);
    // Bytes have no gradient.
    operands.x = at::randint(0, 256, operands.x.sizes(), at::kByte)
                     .contiguous(at::MemoryFormat::ChannelsLast);
    operands.make_gradient();
    expect_close(operands.by(way), operands.exactly(way), way);
  });
}

TEST(ConvolutionTest, NothingDependsOnTheNumberOfThreads) {
  torch::manual_seed(4);
  const auto threads = at::get_num_threads();
  for_all([](const Way& way, Operands& operands) {
    at::set_num_threads(1);
    const auto one = operands.by(way);
    at::set_num_threads(3);
    expect_equal(operands.by(way), one);
  });
  at::set_num_threads(threads);
}

TEST(ConvolutionTest, AnImageDoesNotDependOnTheOthers) {
  torch::manual_seed(5);
  for_all([](const Way& way, Operands& operands) {
    const auto all = operands.by(way).y;
    const auto last = operands.x.size(0) - 1;
    operands.x = operands.x.narrow(0, last, 1);
    operands.gradient = at::Tensor();
    EXPECT_TRUE(at::equal(operands.by(way).y[0], all[last]));
  });
}

TEST(ConvolutionTest, NotANumberIsNotLost) {
  torch::manual_seed(6);
  for_all([](const Way& way, Operands& operands) {
    operands.make_gradient();
    operands.weight[3][5 % operands.weight.size(1)][0][0] = std::numeric_limits<float>::quiet_NaN();
    const auto found = operands.by(way);
    EXPECT_TRUE(found.y.select(1, 3).isnan().all().item<bool>());
    EXPECT_FALSE(found.y.select(1, 4).isnan().any().item<bool>());
    EXPECT_TRUE(found.of_x.isnan().any().item<bool>());
  });
}

TEST(ConvolutionTest, AnyLayoutOfTheInput) {
  torch::manual_seed(7);
  for_all([](const Way& way, Operands& operands) {
    const auto expected = operands.by(way);
    operands.x = operands.x.contiguous();
    expect_equal(operands.by(way), expected);
    const torch::NoGradGuard no_grad;
    EXPECT_TRUE(at::equal(
        way.convolution(operands.x.to(way.dtype), operands.weight, operands.bias, operands.stride),
        expected.y));
  });
}

TEST(ConvolutionTest, ASecondDerivativeIsAnError) {
  for_all([](const Way& way, Operands& operands) {
    const auto x = Operands::leaf(operands.x, way.dtype);
    const auto y = way.convolution(x, operands.weight, operands.bias, operands.stride);
    EXPECT_THROW(
        torch::autograd::grad({y.sum()}, {x}, {}, /*retain_graph=*/true, /*create_graph=*/true),
        Error);
  });
}

TEST(ConvolutionTest, NoImagesGiveNoGradient) {
  for_all([](const Way& way, Operands& operands) {
    operands.x = operands.x.narrow(0, 0, 0);
    const auto found = operands.by(way);
    EXPECT_EQ(found.y.size(0), 0);
    EXPECT_EQ(found.of_weight.abs().max().item<float>(), 0);
  });
}

template <class Fits>
bool fits(const Fits& of_way, at::ScalarType dtype, const Sizes& s) {
  const Operands operands(s);
  return of_way(operands.x.to(dtype), operands.weight, s.stride);
}

TEST(ConvolutionTest, OtherLayersDoNotFitWinograd) {
  const auto by_winograd = [](const Sizes& s) { return fits(fits_winograd, at::kFloat, s); };
  EXPECT_TRUE(by_winograd({1, 16, 9, 9, 32, 3, 1}));
  EXPECT_FALSE(by_winograd({1, 16, 9, 9, 48, 3, 1}));  // filters
  EXPECT_FALSE(by_winograd({1, 3, 9, 9, 32, 3, 1}));   // channels
  EXPECT_FALSE(by_winograd({1, 16, 9, 9, 32, 3, 2}));  // a part of a cell
  EXPECT_FALSE(by_winograd({1, 16, 9, 9, 32, 5, 1}));  // more taps
  EXPECT_FALSE(by_winograd({1, 16, 9, 9, 32, 1, 1}));  // nothing to gain
  const auto picture = at::randn({1, 16, 2, 9}), weight = at::randn({32, 16, 3, 3});
  EXPECT_FALSE(fits_winograd(picture, weight, 1));  // smaller than a filter
  EXPECT_FALSE(fits_winograd(at::randn({1, 32, 9, 9}), weight, 1));
}

TEST(ConvolutionTest, OtherLayersDoNotFitAmx) {
  if (!panel_amx()) GTEST_SKIP() << "this CPU has no AMX";
  const auto by_amx = [](const Sizes& s) { return fits(fits_amx_convolution, at::kBFloat16, s); };
  EXPECT_TRUE(by_amx({1, 32, 9, 9, 32, 3, 1}));
  EXPECT_FALSE(by_amx({1, 32, 9, 9, 48, 3, 1}));  // filters
  EXPECT_FALSE(by_amx({1, 48, 9, 9, 32, 3, 1}));  // channels
  EXPECT_FALSE(by_amx({1, 3, 9, 9, 32, 3, 1}));
  EXPECT_FALSE(by_amx({1, 2, 12, 12, 32, 8, 4}));  // channels of a row of a cell
  EXPECT_FALSE(by_amx({1, 32, 9, 9, 32, 3, 2}));   // a part of a cell
  const auto picture = at::randn({1, 32, 2, 9}).to(at::kBFloat16),
             weight = at::randn({32, 32, 3, 3});
  EXPECT_FALSE(fits_amx_convolution(picture, weight, 1));  // smaller than a filter
}

// relu_convolution() chooses among Winograd's algorithm, AMX and LibTorch by the layer, batch and
// dtype.
TEST(ReluConvolutionTest, EqualsTheConvolutionForEveryBatchAndDtype) {
  torch::manual_seed(8);
  for (const auto dtype : {at::kFloat, at::kBFloat16}) {
    for (const std::int64_t images : {1, 7, 8, 20}) {
      for (auto sizes : {kSizes[1], Sizes{0, 3, 12, 12, 24, 5, 3}}) {
        sizes.images = images;
        const Operands o(sizes);
        const auto found = relu_convolution(o.x, o.weight, o.bias, sizes.stride, dtype);
        EXPECT_EQ(found.scalar_type(), dtype);
        const auto expected = at::conv2d(o.x.to(at::kDouble), o.weight.to(at::kDouble),
                                         o.bias.to(at::kDouble), sizes.stride)
                                  .relu();
        EXPECT_LT(relative_error(found, expected), dtype == at::kFloat ? 1e-5 : 0.02);
      }
    }
  }
}

}  // namespace
}  // namespace shoal::convolution_test
