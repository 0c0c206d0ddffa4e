#include "src/models/winograd.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <cstdint>

#include "shoal/core/error.h"
#include "src/core/divide_up.h"
#include "src/models/aligned_scratch.h"
#include "src/models/panel_kernels.h"
#include "src/models/weight_chunks.h"
#include "src/models/winograd_kernels.h"

namespace shoal {

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::tensor_list;

constexpr std::int64_t kMostLanes = 16;
// Images are multiplied together until they have at least so many tiles.
constexpr std::int64_t kLeastTiles = 36;

struct WinogradLayer {
  std::int64_t images, height, width, channels;
  std::int64_t filters, taps, stride;
  std::int64_t out_height, out_width;
  const WinogradKernels* kernels = nullptr;
  std::int64_t rows = 0, columns = 0;  // of tiles, in an image

  WinogradLayer(const at::Tensor& x, std::int64_t number_of_filters, std::int64_t cells_across,
                std::int64_t pixels_across)
      : images(x.size(0)),
        height(x.size(2)),
        width(x.size(3)),
        channels(x.size(1)),
        filters(number_of_filters),
        taps(cells_across),
        stride(pixels_across),
        out_height(height / stride - taps + 1),
        out_width(width / stride - taps + 1) {
    // The size of tiles with the fewest multiplications.
    std::int64_t least = 0;
    for (const auto& each : winograd_kernels()) {
      if (each.taps != taps) continue;
      const auto down = divide_up(out_height, each.out), right = divide_up(out_width, each.out);
      const auto side = each.out + taps - 1, multiplications = down * right * side * side;
      if (kernels != nullptr && multiplications >= least) continue;
      kernels = &each, least = multiplications;
      rows = down, columns = right;
    }
  }

  std::int64_t side() const { return kernels->out + taps - 1; }
  std::int64_t points() const { return side() * side(); }
  std::int64_t tiles() const { return rows * columns; }
  std::int64_t cell() const { return stride * stride * channels; }  // channels of a cell
  std::int64_t panels() const { return filters / kPanel; }
  std::int64_t in_size() const { return height * width * channels; }
  std::int64_t out_size() const { return out_height * out_width * filters; }
  std::int64_t weights() const { return points() * cell() * filters; }  // transformed

  std::int64_t images_together() const {
    return std::clamp<std::int64_t>(images, 1, divide_up(kLeastTiles, tiles()));
  }
};

// Some images of a batch, transformed. All blocks of a thread use the same memory, so one is alive
// at a time.
class WinogradBlock {
 public:
  WinogradBlock(const WinogradLayer& layer, std::int64_t first, std::int64_t images)
      : l_(layer), first_(first), images_(images), tiles_(images * layer.tiles()) {
    thread_local AlignedScratch<float> input, output;
    input_ = input.take(l_.points() * tiles_ * l_.cell());
    output_ = output.take(l_.points() * tiles_ * l_.filters);
  }
  WinogradBlock(const WinogradBlock&) = delete;
  WinogradBlock& operator=(const WinogradBlock&) = delete;

  void transform_input(const at::Tensor& x) {
    thread_local AlignedScratch<float> widened;
    for (std::int64_t n = 0; n < images_; ++n) {
      float* image = nullptr;
      const auto from = (first_ + n) * l_.in_size();
      if (x.scalar_type() == at::kByte) {
        image = widened.take(l_.in_size());
        panel_kernels().widen(x.const_data_ptr<std::uint8_t>() + from, l_.in_size(), image);
      } else {
        image = const_cast<float*>(x.const_data_ptr<float>()) + from;  // only read
      }
      for_tiles(
          n, [&](auto tile, auto i, auto j) { l_.kernels->input(input_tile(image, tile, i, j)); });
    }
  }
  // The transformed output. weights: [points, panels, cell, kPanel]
  void multiply(const float* weights) {
    for (std::int64_t t = 0; t < l_.points(); ++t)
      for (std::int64_t p = 0; p < l_.panels(); ++p)
        panel_kernels().product({.a = input(t),
                                 .a_row = l_.cell(),
                                 .a_step = 1,
                                 .steps = l_.cell(),
                                 .b = weights + (t * l_.panels() + p) * l_.cell() * kPanel,
                                 .rows = tiles_,
                                 .c = output(t, p)});
  }
  void transform_output(const float* bias, float* y) {
    for (std::int64_t n = 0; n < images_; ++n)
      for_tiles(n, [&](auto tile, auto i, auto j) {
        auto to = output_tile(y + (first_ + n) * l_.out_size(), tile, i, j);
        to.bias = bias;
        l_.kernels->output(to);
      });
  }

  // Replaces the transformed output by its gradient.
  void transform_output_gradient(const float* y, const float* gradient, float* bias_gradient) {
    for (std::int64_t n = 0; n < images_; ++n)
      for_tiles(n, [&](auto tile, auto i, auto j) {
        auto from = output_tile(const_cast<float*>(y) + (first_ + n) * l_.out_size(), tile, i, j);
        from.gradient = gradient + (from.image - y);
        from.bias_gradient = bias_gradient;
        l_.kernels->output_gradient(from);
      });
  }
  // The gradient of the weights, added to what `to` holds or not.
  void multiply_for_weights(float* to, bool add) const {
    for (std::int64_t t = 0; t < l_.points(); ++t)
      for (std::int64_t p = 0; p < l_.panels(); ++p)
        panel_kernels().product({.a = input(t),
                                 .a_row = 1,
                                 .a_step = l_.cell(),
                                 .steps = tiles_,
                                 .b = output(t, p),
                                 .rows = l_.cell(),
                                 .c = to + (t * l_.panels() + p) * l_.cell() * kPanel,
                                 .add = add});
  }
  // Replaces the transformed input by its gradient. transposed: [points, panels of the cell,
  // filters, kPanel]
  void multiply_for_input(const float* transposed) {
    const auto panels = panels_of(l_.cell());
    for (std::int64_t t = 0; t < l_.points(); ++t)
      for (std::int64_t p = 0; p < panels; ++p)
        panel_kernels().product({.a = output(t, 0),
                                 .a_row = kPanel,
                                 .a_step = 1,
                                 .steps = kPanel,
                                 .blocks = l_.panels(),
                                 .a_block = tiles_ * kPanel,
                                 .b = transposed + (t * panels + p) * l_.filters * kPanel,
                                 .rows = tiles_,
                                 .c = input(t) + p * kPanel,
                                 .c_row = l_.cell(),
                                 .columns = std::min(kPanel, l_.cell() - p * kPanel)});
  }
  void transform_input_gradient(float* x_gradient) const {
    for (std::int64_t n = 0; n < images_; ++n) {
      float* const image = x_gradient + (first_ + n) * l_.in_size();
      std::fill_n(image, l_.in_size(), 0.0F);
      for_tiles(n, [&](auto tile, auto i, auto j) {
        l_.kernels->input_gradient(input_tile(image, tile, i, j));
      });
    }
  }

 private:
  float* input(std::int64_t t) const { return input_ + t * tiles_ * l_.cell(); }
  float* output(std::int64_t t, std::int64_t panel) const {
    return output_ + (t * l_.panels() + panel) * tiles_ * kPanel;
  }
  // call(number of the tile, its first output cell down, across) for each tile of image n.
  template <class Call>
  void for_tiles(std::int64_t n, const Call& call) const {
    const auto out = l_.kernels->out;
    for (std::int64_t i = 0; i < l_.rows; ++i)
      for (std::int64_t j = 0; j < l_.columns; ++j)
        call((n * l_.rows + i) * l_.columns + j, i * out, j * out);
  }
  WinogradInput input_tile(float* image, std::int64_t tile, std::int64_t i, std::int64_t j) const {
    const auto pixel_row = l_.width * l_.channels, cell_row_size = l_.stride * l_.channels;
    return {.image = image + i * l_.stride * pixel_row + j * cell_row_size,
            .row_stride = l_.stride * pixel_row,
            .column_stride = cell_row_size,
            .cell_rows = l_.stride,
            .cell_row_stride = pixel_row,
            .cell_row_size = cell_row_size,
            .rows = l_.height / l_.stride - i,
            .columns = l_.width / l_.stride - j,
            .transformed = input_ + tile * l_.cell(),
            .point_stride = tiles_ * l_.cell()};
  }
  WinogradOutput output_tile(float* image, std::int64_t tile, std::int64_t i,
                             std::int64_t j) const {
    return {.transformed = output_ + tile * kPanel,
            .point_stride = tiles_ * l_.filters,
            .panel_stride = tiles_ * kPanel,
            .channels = l_.filters,
            .image = image + (i * l_.out_width + j) * l_.filters,
            .row_stride = l_.out_width * l_.filters,
            .column_stride = l_.filters,
            .rows = l_.out_height - i,
            .columns = l_.out_width - j};
  }

  const WinogradLayer& l_;
  std::int64_t first_, images_, tiles_;
  float *input_, *output_;  // [points, tiles, cell]; [points, panels, tiles, kPanel]
};

class WinogradConvolution : public torch::autograd::Function<WinogradConvolution> {
 public:
  // x: [N, C, H, W] channels last; weights: [points, panels, cell, kPanel].
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x,
                            const at::Tensor& weights, const at::Tensor& bias, std::int64_t taps,
                            std::int64_t stride) {
    const WinogradLayer l(x, bias.size(0), taps, stride);
    auto y = at::empty({l.images, l.filters, l.out_height, l.out_width}, bias.options(),
                       at::MemoryFormat::ChannelsLast);
    const auto together = l.images_together();
    at::parallel_for(0, divide_up(l.images, together), 1, [&](std::int64_t from, std::int64_t end) {
      for (auto n = from * together; n < std::min(end * together, l.images); n += together) {
        WinogradBlock block(l, n, std::min(together, l.images - n));
        block.transform_input(x);
        block.multiply(weights.const_data_ptr<float>());
        block.transform_output(bias.const_data_ptr<float>(), y.data_ptr<float>());
      }
    });
    context->save_for_backward({x, weights, y});
    context->saved_data["taps"] = taps;
    context->saved_data["stride"] = stride;
    return y;
  }

  static tensor_list backward(AutogradContext* context, tensor_list gradient) {
    require(!at::GradMode::is_enabled(),
            "winograd_convolution: found a second derivative, expected at most one; use conv2d");
    const auto saved = context->get_saved_variables();
    const auto &x = saved[0], &weights = saved[1], &y = saved[2];
    const WinogradLayer l(x, y.size(1), context->saved_data["taps"].toInt(),
                          context->saved_data["stride"].toInt());
    const auto y_gradient = gradient[0].contiguous(at::MemoryFormat::ChannelsLast);
    at::Tensor x_gradient, transposed;
    if (context->needs_input_grad(0)) {
      x_gradient = at::empty_like(x);
      transposed = transpose(weights, l);
    }
    const auto chunk = images_of_chunk(l.images, l.weights()), chunks = divide_up(l.images, chunk);
    const auto weight_gradients = at::empty({chunks, l.weights()}, weights.options());
    const auto bias_gradients = at::zeros({chunks, l.filters}, weights.options());
    const auto together = l.images_together();
    at::parallel_for(0, chunks, 1, [&](std::int64_t from, std::int64_t end) {
      for (auto c = from; c < end; ++c) {
        const auto first = c * chunk, last = std::min(first + chunk, l.images);
        for (auto n = first; n < last; n += together) {
          WinogradBlock block(l, n, std::min(together, last - n));
          block.transform_input(x);
          block.transform_output_gradient(y.const_data_ptr<float>(),
                                          y_gradient.const_data_ptr<float>(),
                                          bias_gradients.data_ptr<float>() + c * l.filters);
          block.multiply_for_weights(weight_gradients.data_ptr<float>() + c * l.weights(),
                                     /*add=*/n != first);
          if (!x_gradient.defined()) continue;
          block.multiply_for_input(transposed.const_data_ptr<float>());
          block.transform_input_gradient(x_gradient.data_ptr<float>());
        }
      }
    });
    return {
        x_gradient, weight_gradients.sum(0).view(weights.sizes()), bias_gradients.sum(0), {}, {}};
  }

 private:
  // [points, panels, cell, kPanel] to [points, panels of the cell, filters, kPanel].
  static at::Tensor transpose(const at::Tensor& weights, const WinogradLayer& l) {
    auto t = weights.permute({0, 1, 3, 2}).reshape({l.points(), l.filters, l.cell()});
    const auto panels = panels_of(l.cell()), missing = panels * kPanel - l.cell();
    if (missing > 0) t = at::constant_pad_nd(t, {0, missing});
    return t.view({l.points(), l.filters, panels, kPanel}).permute({0, 2, 1, 3}).contiguous();
  }
};

// The weights [filters, C, R * stride, R * stride] transformed: [points, panels, cell, kPanel].
at::Tensor transformed(const at::Tensor& weight, const WinogradLayer& l) {
  const auto cells =
      weight.reshape({l.panels(), kPanel, l.channels, l.taps, l.stride, l.taps, l.stride})
          .permute({3, 5, 0, 4, 6, 2, 1})
          .reshape({l.taps * l.taps, -1});
  const auto one = at::from_blob(const_cast<float*>(l.kernels->weight), {l.side(), l.taps});
  return at::kron(one, one).matmul(cells).view({l.points(), l.panels(), l.cell(), kPanel});
}

}  // namespace

bool fits_winograd(const at::Tensor& x, const at::Tensor& weight, std::int64_t stride) {
  const auto size = weight.size(2), taps = size / stride;
  return x.is_cpu() && weight.scalar_type() == at::kFloat && size % stride == 0 &&
         size == weight.size(3) && (taps == 2 || taps == 3) && weight.size(0) % kPanel == 0 &&
         x.size(1) == weight.size(1) && x.size(1) * stride % kMostLanes == 0 && x.size(2) >= size &&
         x.size(3) >= size;
}

at::Tensor winograd_convolution(const at::Tensor& x, const at::Tensor& weight,
                                const at::Tensor& bias, std::int64_t stride) {
  const auto taps = weight.size(2) / stride;
  const WinogradLayer l(x, weight.size(0), taps, stride);
  return WinogradConvolution::apply(x.contiguous(at::MemoryFormat::ChannelsLast),
                                    transformed(weight, l), bias, taps, stride);
}

}  // namespace shoal
