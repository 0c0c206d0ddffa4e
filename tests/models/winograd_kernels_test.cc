#include "src/models/winograd_kernels.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>
#include <string>

#include "src/models/panel_kernels.h"

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

}  // namespace
}  // namespace shoal::winograd_test
