#include "src/models/winograd.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include "shoal/core/error.h"
#include "src/models/convolution.h"
#include "src/models/panel_kernels.h"
#include "src/models/winograd_kernels.h"

namespace shoal::winograd_test {
namespace {

constexpr std::int64_t kLanes = 16;

float* data(const at::Tensor& t) { return t.data_ptr<float>(); }

double relative_error(const at::Tensor& found, const at::Tensor& expected) {
  EXPECT_EQ(found.sizes(), expected.sizes());
  return ((found - expected).abs().max() / expected.abs().max()).item<double>();
}

// Checks the kernels of each size for every instruction set of this CPU.
template <class Check>
void for_all_kernels(const Check& check) {
  for (const auto& sizes : all_winograd_kernels())
    for (const auto& kernels : sizes) {
      SCOPED_TRACE("F(" + std::to_string(kernels.out) + ", " + std::to_string(kernels.taps) + ")");
      check(kernels);
    }
}

// A tile at the lower right end of an input and of an output, where some of its cells are missing.
// A cell has two rows.
struct OneTile {
  OneTile(const WinogradKernels& of, std::int64_t missing_rows, std::int64_t missing_columns)
      : side(of.out + of.taps - 1),
        rows(side - missing_rows),
        columns(side - missing_columns),
        image(at::randn({rows, columns, 2, kLanes})),
        transformed_in(at::randn({side * side, 2 * kLanes})),
        out_rows(std::max<std::int64_t>(of.out - missing_rows, 1)),
        out_columns(std::max<std::int64_t>(of.out - missing_columns, 1)),
        transformed_out(at::randn({side * side, kPanel})),
        out(at::randn({out_rows, out_columns, kPanel})) {}

  WinogradInput input() const {
    return {.image = data(image),
            .row_stride = columns * 2 * kLanes,
            .column_stride = 2 * kLanes,
            .cell_rows = 2,
            .cell_row_stride = kLanes,
            .cell_row_size = kLanes,
            .rows = rows,
            .columns = columns,
            .transformed = data(transformed_in),
            .point_stride = 2 * kLanes};
  }
  WinogradOutput output() const {
    return {.transformed = data(transformed_out),
            .point_stride = kPanel,
            .panel_stride = 0,
            .channels = kPanel,
            .image = data(out),
            .row_stride = out_columns * kPanel,
            .column_stride = kPanel,
            .rows = out_rows,
            .columns = out_columns};
  }

  std::int64_t side, rows, columns;
  at::Tensor image, transformed_in;
  std::int64_t out_rows, out_columns;
  at::Tensor transformed_out, out;
};

TEST(WinogradTest, ATileIsAConvolution) {
  torch::manual_seed(1);
  for_all_kernels([](const WinogradKernels& kernels) {
    for (const std::int64_t missing : {0, 1}) {
      const OneTile t(kernels, missing, 0);
      kernels.input(t.input());
      // A filter for each channel.
      const auto filter = at::randn({kPanel, kernels.taps, kernels.taps});
      const auto one = at::from_blob(const_cast<float*>(kernels.weight), {t.side, kernels.taps});
      const auto weight = at::matmul(at::matmul(one, filter), one.t());
      t.transformed_out.copy_(t.transformed_in * weight.permute({1, 2, 0}).reshape({-1, kPanel}));
      const auto bias = at::randn({kPanel});
      auto output = t.output();
      output.bias = data(bias);
      kernels.output(output);
      const auto cells = t.image.view({t.rows, t.columns, kPanel}).permute({2, 0, 1}).unsqueeze(0);
      const auto expected =
          at::conv2d(cells, filter.unsqueeze(1), bias, 1, at::IntArrayRef{0}, 1, kPanel)
              .relu()
              .squeeze(0);
      EXPECT_LT(relative_error(t.out.permute({2, 0, 1}), expected), 1e-5);
    }
  });
}

// The gradient of a linear map is its transpose: <map(x), y> = <x, transpose(y)>.
TEST(WinogradTest, TheGradientOfATileIsItsTranspose) {
  torch::manual_seed(2);
  for_all_kernels([](const WinogradKernels& kernels) {
    for (const std::int64_t missing : {0, 1}) {
      const OneTile t(kernels, 0, missing);
      const auto gradient = at::randn_like(t.transformed_in);
      kernels.input(t.input());
      const auto forward = (t.transformed_in * gradient).sum();
      const auto image = t.image.clone();
      t.transformed_in.copy_(gradient);
      t.image.fill_(1);
      kernels.input_gradient(t.input());
      const auto backward = ((t.image - 1) * image).sum();  // it adds
      EXPECT_LT(relative_error(backward, forward), 1e-4);

      const auto bias = at::full({kPanel}, 2e3F);  // nothing is cut off
      auto output = t.output();
      output.bias = data(bias);
      kernels.output(output);
      const auto of_out = at::randn_like(t.out);
      const auto before = t.transformed_out.to(at::kDouble);
      const auto forward_out = ((t.out.to(at::kDouble) - 2e3) * of_out).sum();
      const auto bias_gradient = at::ones({kPanel});
      output.gradient = data(of_out);
      output.bias_gradient = data(bias_gradient);
      kernels.output_gradient(output);
      EXPECT_LT(relative_error((t.transformed_out * before).sum(), forward_out), 1e-2);
      EXPECT_LT(relative_error(bias_gradient, 1 + of_out.sum(at::IntArrayRef{0, 1})), 1e-5);

      t.out.fill_(-1);  // behind a ReLU: nothing goes back
      kernels.output_gradient(output);
      EXPECT_EQ(t.transformed_out.abs().max().item<float>(), 0);
    }
  });
}

struct Sizes {
  std::int64_t images, channels, height, width, filters, size, stride;
};
const std::vector<Sizes> kSizes = {{5, 4, 84, 84, 32, 8, 4},   // those of Mnih et al. (2015)
                                   {5, 32, 20, 20, 64, 4, 2},  //
                                   {35, 64, 9, 9, 64, 3, 1},
                                   {2, 12, 47, 38, 32, 8, 4},   // pixels that no filter reads
                                   {1, 16, 6, 11, 96, 2, 1},    // three panels
                                   {70, 16, 3, 5, 32, 3, 1},    // fewer outputs than a tile has
                                   {9, 16, 12, 12, 32, 6, 2}};  // cells of 2 x 2

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

  // The loss is <y, gradient>. Outputs that a rounding error may push over the ReLU do not count.
  void make_gradient() {
    const auto sum =
        at::conv2d(x.to(at::kDouble), weight.to(at::kDouble), bias.to(at::kDouble), stride);
    gradient = at::randn(sum.sizes()) * (sum.abs() > 1e-3);
  }

  // y and its gradients by a function of x, weight and bias.
  template <class Convolution>
  Result by(const Convolution& convolution, at::ScalarType dtype) {
    const auto leaf = [&](const at::Tensor& t) {
      return t.scalar_type() == at::kByte ? t : t.detach().to(dtype).requires_grad_();
    };
    const auto in = leaf(x), w = leaf(weight), b = leaf(bias);
    const auto y = convolution(in, w, b);
    if (!gradient.defined()) make_gradient();
    y.backward(gradient.to(dtype));
    return {y.detach(), in.grad(), w.grad(), b.grad()};
  }
  Result by_winograd() {
    EXPECT_TRUE(fits_winograd(x, weight, stride));
    return by([&](const auto& in, const auto& w,
                  const auto& b) { return winograd_convolution(in, w, b, stride); },
              at::kFloat);
  }
  Result exactly() {
    return by([&](const auto& in, const auto& w,
                  const auto& b) { return at::conv2d(in.to(at::kDouble), w, b, stride).relu(); },
              at::kDouble);
  }

  std::int64_t stride;
  at::Tensor x, weight, bias, gradient;
};

void expect_close(const Result& found, const Result& expected) {
  EXPECT_LT(relative_error(found.y, expected.y), 1e-5);
  EXPECT_EQ(found.of_x.defined(), expected.of_x.defined());
  if (found.of_x.defined()) {
    EXPECT_LT(relative_error(found.of_x, expected.of_x), 1e-5);
  }
  EXPECT_LT(relative_error(found.of_weight, expected.of_weight), 1e-5);
  EXPECT_LT(relative_error(found.of_bias, expected.of_bias), 1e-5);
}

TEST(WinogradTest, ValuesAndGradientsAreThoseOfTheConvolutionInDoublePrecision) {
  torch::manual_seed(3);
  for (const auto& sizes : kSizes) {
    SCOPED_TRACE(std::to_string(sizes.height) + " x " + std::to_string(sizes.width));
    Operands operands(sizes);
    expect_close(operands.by_winograd(), operands.exactly());
    // Bytes have no gradient.
    operands.x = at::randint(0, 256, operands.x.sizes(), at::kByte)
                     .contiguous(at::MemoryFormat::ChannelsLast);
    operands.make_gradient();
    expect_close(operands.by_winograd(), operands.exactly());
  }
}

TEST(WinogradTest, NothingDependsOnTheNumberOfThreads) {
  torch::manual_seed(4);
  const auto threads = at::get_num_threads();
  for (const auto& sizes : kSizes) {
    Operands operands(sizes);
    at::set_num_threads(1);
    const auto one = operands.by_winograd();
    at::set_num_threads(3);
    const auto three = operands.by_winograd();
    EXPECT_TRUE(at::equal(one.y, three.y));
    EXPECT_TRUE(at::equal(one.of_x, three.of_x));
    EXPECT_TRUE(at::equal(one.of_weight, three.of_weight));
    EXPECT_TRUE(at::equal(one.of_bias, three.of_bias));
  }
  at::set_num_threads(threads);
}

TEST(WinogradTest, AnImageDoesNotDependOnTheOthers) {
  torch::manual_seed(5);
  for (const auto& sizes : kSizes) {
    Operands operands(sizes);
    const auto all = operands.by_winograd().y;
    operands.x = operands.x.narrow(0, sizes.images - 1, 1);
    operands.gradient = at::Tensor();
    EXPECT_TRUE(at::equal(operands.by_winograd().y[0], all[sizes.images - 1]));
  }
}

TEST(WinogradTest, NotANumberIsNotLost) {
  torch::manual_seed(6);
  Operands operands(kSizes[2]);
  operands.weight[3][5][1][2] = std::numeric_limits<float>::quiet_NaN();
  const auto found = operands.by_winograd();
  EXPECT_TRUE(found.y.select(1, 3).isnan().all().item<bool>());
  EXPECT_FALSE(found.y.select(1, 4).isnan().any().item<bool>());
  EXPECT_TRUE(found.of_x.isnan().any().item<bool>());
}

TEST(WinogradTest, AnyLayoutOfTheInput) {
  torch::manual_seed(7);
  Operands operands(kSizes[1]);
  const auto expected = operands.by_winograd();
  operands.x = operands.x.contiguous();
  const auto found = operands.by_winograd();
  EXPECT_TRUE(at::equal(found.y, expected.y));
  EXPECT_TRUE(at::equal(found.of_x, expected.of_x));
  EXPECT_TRUE(at::equal(found.of_weight, expected.of_weight));
  const torch::NoGradGuard no_grad;
  EXPECT_TRUE(
      at::equal(winograd_convolution(operands.x, operands.weight, operands.bias, 2), expected.y));
}

TEST(WinogradTest, ASecondDerivativeIsAnError) {
  Operands operands(kSizes[2]);
  const auto x = operands.x.requires_grad_();
  const auto y = winograd_convolution(x, operands.weight, operands.bias, 1);
  EXPECT_THROW(
      torch::autograd::grad({y.sum()}, {x}, {}, /*retain_graph=*/true, /*create_graph=*/true),
      Error);
}

TEST(WinogradTest, NoImagesGiveNoGradient) {
  auto sizes = kSizes[1];
  sizes.images = 0;
  const auto found = Operands(sizes).by_winograd();
  EXPECT_EQ(found.y.sizes(), (std::vector<std::int64_t>{0, 64, 9, 9}));
  EXPECT_EQ(found.of_weight.abs().max().item<float>(), 0);
}

TEST(WinogradTest, OtherLayersDoNotFit) {
  const auto fits = [](const Sizes& s) {
    const Operands operands(s);
    return fits_winograd(operands.x, operands.weight, s.stride);
  };
  EXPECT_TRUE(fits({1, 16, 9, 9, 32, 3, 1}));
  EXPECT_FALSE(fits({1, 16, 9, 9, 48, 3, 1}));  // filters
  EXPECT_FALSE(fits({1, 3, 9, 9, 32, 3, 1}));   // channels
  EXPECT_FALSE(fits({1, 16, 9, 9, 32, 3, 2}));  // a part of a cell
  EXPECT_FALSE(fits({1, 16, 9, 9, 32, 5, 1}));  // more taps
  EXPECT_FALSE(fits({1, 16, 9, 9, 32, 1, 1}));  // nothing to gain
  const auto picture = at::randn({1, 16, 2, 9}), weight = at::randn({32, 16, 3, 3});
  EXPECT_FALSE(fits_winograd(picture, weight, 1));  // smaller than a filter
  EXPECT_FALSE(fits_winograd(at::randn({1, 32, 9, 9}), weight, 1));
}

// relu_convolution() chooses Winograd's algorithm or LibTorch's by the layer, batch and dtype.
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
}  // namespace shoal::winograd_test
