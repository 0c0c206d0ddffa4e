#include "src/models/winograd.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <cstddef>
#include <vector>

#include "src/models/divide_up.h"
#include "src/models/panel_kernels.h"
#include "src/models/winograd_kernels.h"

namespace shoal {

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::tensor_list;

constexpr std::int64_t kMostLanes = 16;
// Rows of a product, at least: images are taken together until they have so many tiles.
constexpr std::int64_t kRows = 36;
// Images whose gradients of the weights are summed before those of others are added: so many, or
// more, for a limited number of sums.
constexpr std::int64_t kLeastShare = 16, kMostShares = 16;

// The sizes of a layer.
struct WinogradLayer {
  std::int64_t images, height, width, channels;
  std::int64_t filters, taps, stride;
  std::int64_t out_height, out_width;
  const WinogradTile* tile;
  std::int64_t rows, columns;  // tiles of an image

  WinogradLayer(const at::Tensor& x, std::int64_t of, std::int64_t across, std::int64_t step)
      : images(x.size(0)),
        height(x.size(2)),
        width(x.size(3)),
        channels(x.size(1)),
        filters(of),
        taps(across),
        stride(step),
        out_height(height / stride - taps + 1),
        out_width(width / stride - taps + 1),
        tile(nullptr) {
    // The fewest multiplications.
    std::int64_t least = 0;
    for (const auto& each : winograd_tiles()) {
      if (each.taps != taps) continue;
      const auto down = divide_up(out_height, each.out), right = divide_up(out_width, each.out);
      const auto side = each.out + taps - 1, work = down * right * side * side;
      if (tile == nullptr || work < least) tile = &each, least = work, rows = down, columns = right;
    }
  }

  std::int64_t side() const { return tile->out + taps - 1; }
  std::int64_t points() const { return side() * side(); }
  std::int64_t tiles() const { return rows * columns; }
  std::int64_t cell() const { return stride * stride * channels; }  // channels of a cell
  std::int64_t panels() const { return filters / kPanel; }
  std::int64_t block() const {  // images that are computed together
    return std::clamp<std::int64_t>(images, 1, divide_up(kRows, tiles()));
  }
  std::int64_t in_size() const { return height * width * channels; }
  std::int64_t out_size() const { return out_height * out_width * filters; }
  std::int64_t weights() const { return points() * cell() * filters; }
};

class AlignedScratch {
 public:
  float* take(std::int64_t n) {
    numbers_.resize(static_cast<std::size_t>(n) + kMostLanes);
    auto at = reinterpret_cast<std::uintptr_t>(numbers_.data());
    constexpr std::uintptr_t kLine = kMostLanes * sizeof(float);
    return reinterpret_cast<float*>((at + kLine - 1) / kLine * kLine);
  }

 private:
  std::vector<float> numbers_;
};

// The factors and products of some images.
class WinogradBlock {
 public:
  WinogradBlock(const WinogradLayer& layer, std::int64_t images)
      : l_(layer), rows_(images * layer.tiles()), images_(images) {
    thread_local AlignedScratch factors, products, pixels;
    factors_ = factors.take(l_.points() * rows_ * l_.cell());
    products_ = products.take(l_.points() * rows_ * l_.filters);
    pixels_ = &pixels;
  }

  // Factors of the images from `first` on.
  void read(const at::Tensor& x, std::int64_t first) {
    for (std::int64_t n = 0; n < images_; ++n) {
      float* image = nullptr;
      const auto from = (first + n) * l_.in_size();
      if (x.scalar_type() == at::kByte) {
        image = pixels_->take(l_.in_size());
        panel_kernels().widen(x.const_data_ptr<std::uint8_t>() + from, l_.in_size(), image);
      } else {
        image = const_cast<float*>(x.const_data_ptr<float>()) + from;
      }
      for_tiles(n, [&](auto row, auto i, auto j) { l_.tile->input(input(image, row, i, j)); });
    }
  }
  // weights: [points, panels, cell, kPanel]
  void multiply(const float* weights) {
    for (std::int64_t t = 0; t < l_.points(); ++t)
      for (std::int64_t p = 0; p < l_.panels(); ++p)
        panel_kernels().product({.a = factors(t),
                                 .a_row = l_.cell(),
                                 .a_step = 1,
                                 .steps = l_.cell(),
                                 .b = weights + (t * l_.panels() + p) * l_.cell() * kPanel,
                                 .rows = rows_,
                                 .c = products(t, p)});
  }
  void write(const float* bias, float* y, std::int64_t first) {
    for (std::int64_t n = 0; n < images_; ++n)
      for_tiles(n, [&](auto row, auto i, auto j) {
        auto tile = output(y + (first + n) * l_.out_size(), row, i, j);
        tile.bias = bias;
        l_.tile->output(tile);
      });
  }

  // The gradients of the products.
  void read_gradient(const float* y, const float* gradient, std::int64_t first, float* of_bias) {
    for (std::int64_t n = 0; n < images_; ++n)
      for_tiles(n, [&](auto row, auto i, auto j) {
        const auto from = (first + n) * l_.out_size();
        auto tile = output(const_cast<float*>(y) + from, row, i, j);
        tile.gradient = gradient + from + (tile.image - (y + from));
        tile.bias_gradient = of_bias;
        l_.tile->output_gradient(tile);
      });
  }
  // The gradients of the weights, added to those of other images.
  void weight_gradient(float* to, bool add) const {
    for (std::int64_t t = 0; t < l_.points(); ++t)
      for (std::int64_t p = 0; p < l_.panels(); ++p)
        panel_kernels().product({.a = factors(t),
                                 .a_row = 1,
                                 .a_step = l_.cell(),
                                 .steps = rows_,
                                 .b = products(t, p),
                                 .rows = l_.cell(),
                                 .c = to + (t * l_.panels() + p) * l_.cell() * kPanel,
                                 .add = add});
  }
  // Replaces the factors by their gradients. transposed: [points, cell / kPanel, filters, kPanel].
  void multiply_back(const float* transposed) {
    const auto parts = divide_up(l_.cell(), kPanel);
    for (std::int64_t t = 0; t < l_.points(); ++t)
      for (std::int64_t p = 0; p < parts; ++p)
        panel_kernels().product({.a = products(t, 0),
                                 .a_row = kPanel,
                                 .a_step = 1,
                                 .steps = kPanel,
                                 .blocks = l_.panels(),
                                 .a_block = rows_ * kPanel,
                                 .b = transposed + (t * parts + p) * l_.filters * kPanel,
                                 .rows = rows_,
                                 .c = factors(t) + p * kPanel,
                                 .c_row = l_.cell(),
                                 .columns = std::min(kPanel, l_.cell() - p * kPanel)});
  }
  void write_gradient(float* of_x, std::int64_t first) const {
    for (std::int64_t n = 0; n < images_; ++n) {
      float* const image = of_x + (first + n) * l_.in_size();
      std::fill_n(image, l_.in_size(), 0.0F);
      for_tiles(
          n, [&](auto row, auto i, auto j) { l_.tile->input_gradient(input(image, row, i, j)); });
    }
  }

 private:
  float* factors(std::int64_t t) const { return factors_ + t * rows_ * l_.cell(); }
  float* products(std::int64_t t, std::int64_t panel) const {
    return products_ + (t * l_.panels() + panel) * rows_ * kPanel;
  }
  // of(row of the products, first output cell down, across) for each tile of image n.
  template <class Of>
  void for_tiles(std::int64_t n, const Of& of) const {
    for (std::int64_t i = 0; i < l_.rows; ++i)
      for (std::int64_t j = 0; j < l_.columns; ++j)
        of((n * l_.rows + i) * l_.columns + j, i * l_.tile->out, j * l_.tile->out);
  }
  WinogradInput input(float* image, std::int64_t row, std::int64_t i, std::int64_t j) const {
    const auto pixels = l_.width * l_.channels;
    return {.image = image + i * l_.stride * pixels + j * l_.stride * l_.channels,
            .row = l_.stride * pixels,
            .column = l_.stride * l_.channels,
            .parts = l_.stride,
            .part = pixels,
            .length = l_.stride * l_.channels,
            .rows = l_.height / l_.stride - i,
            .columns = l_.width / l_.stride - j,
            .factors = factors_ + row * l_.cell(),
            .step = rows_ * l_.cell()};
  }
  WinogradOutput output(float* image, std::int64_t row, std::int64_t i, std::int64_t j) const {
    return {.products = products_ + row * kPanel,
            .step = rows_ * l_.filters,
            .panel = rows_ * kPanel,
            .channels = l_.filters,
            .image = image + (i * l_.out_width + j) * l_.filters,
            .row = l_.out_width * l_.filters,
            .column = l_.filters,
            .rows = l_.out_height - i,
            .columns = l_.out_width - j};
  }

  const WinogradLayer& l_;
  std::int64_t rows_, images_;
  float *factors_, *products_;
  AlignedScratch* pixels_;
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
    const float *w = weights.const_data_ptr<float>(), *b = bias.const_data_ptr<float>();
    float* const to = y.data_ptr<float>();
    at::parallel_for(
        0, divide_up(l.images, l.block()), 1, [&](std::int64_t from, std::int64_t end) {
          for (auto n = from * l.block(); n < std::min(end * l.block(), l.images); n += l.block()) {
            WinogradBlock block(l, std::min(l.block(), l.images - n));
            block.read(x, n);
            block.multiply(w);
            block.write(b, to, n);
          }
        });
    context->save_for_backward({x, weights, y});
    context->saved_data["taps"] = taps;
    context->saved_data["stride"] = stride;
    return y;
  }

  static tensor_list backward(AutogradContext* context, tensor_list gradient) {
    const auto saved = context->get_saved_variables();
    const auto &x = saved[0], &weights = saved[1], &y = saved[2];
    const WinogradLayer l(x, y.size(1), context->saved_data["taps"].toInt(),
                          context->saved_data["stride"].toInt());
    const auto g = gradient[0].contiguous(at::MemoryFormat::ChannelsLast);
    at::Tensor of_x, transposed;
    if (context->needs_input_grad(0)) {
      of_x = at::empty_like(x);
      transposed = transpose(weights, l);
    }
    const auto share_size = std::max(kLeastShare, divide_up(l.images, kMostShares));
    const auto shares = divide_up(l.images, share_size);
    const auto of_weights = at::empty({shares, l.weights()}, weights.options());
    const auto of_bias = at::zeros({shares, l.filters}, weights.options());
    at::parallel_for(0, shares, 1, [&](std::int64_t from, std::int64_t end) {
      for (auto share = from; share < end; ++share) {
        const auto last = std::min((share + 1) * share_size, l.images);
        for (auto n = share * share_size; n < last; n += l.block()) {
          WinogradBlock block(l, std::min(l.block(), last - n));
          block.read(x, n);
          block.read_gradient(y.const_data_ptr<float>(), g.const_data_ptr<float>(), n,
                              of_bias.data_ptr<float>() + share * l.filters);
          block.weight_gradient(of_weights.data_ptr<float>() + share * l.weights(),
                                /*add=*/n != share * share_size);
          if (!of_x.defined()) continue;
          block.multiply_back(transposed.const_data_ptr<float>());
          block.write_gradient(of_x.data_ptr<float>(), n);
        }
      }
    });
    return {of_x, of_weights.sum(0).view(weights.sizes()), of_bias.sum(0), {}, {}};
  }

 private:
  // [points, panels, cell, kPanel] to [points, cell / kPanel, filters, kPanel], the last filled up.
  static at::Tensor transpose(const at::Tensor& weights, const WinogradLayer& l) {
    auto t = weights.permute({0, 1, 3, 2}).reshape({l.points(), l.filters, l.cell()});
    const auto parts = divide_up(l.cell(), kPanel);
    if (l.cell() % kPanel != 0) t = at::constant_pad_nd(t, {0, parts * kPanel - l.cell()});
    return t.view({l.points(), l.filters, parts, kPanel}).permute({0, 2, 1, 3}).contiguous();
  }
};

// The transform of the weights [filters, C, size, size]: [points, panels, cell, kPanel].
at::Tensor transformed(const at::Tensor& weight, const WinogradLayer& l) {
  const auto cells =
      weight.view({l.panels(), kPanel, l.channels, l.taps, l.stride, l.taps, l.stride})
          .permute({3, 5, 0, 4, 6, 2, 1})
          .reshape({l.taps * l.taps, -1});
  const auto one = at::from_blob(const_cast<float*>(l.tile->weight), {l.side(), l.taps});
  return at::kron(one, one).matmul(cells).view({l.points(), l.panels(), l.cell(), kPanel});
}

}  // namespace

bool fits_winograd(const at::Tensor& x, const at::Tensor& weight, std::int64_t stride) {
  const auto size = weight.size(2), taps = size / stride;
  return x.is_cpu() && weight.scalar_type() == at::kFloat && size % stride == 0 &&
         size == weight.size(3) && (taps == 2 || taps == 3) && weight.size(0) % kPanel == 0 &&
         x.size(1) * stride % kMostLanes == 0;
}

at::Tensor winograd_convolution(const at::Tensor& x, const at::Tensor& weight,
                                const at::Tensor& bias, std::int64_t stride) {
  const auto taps = weight.size(2) / stride;
  const WinogradLayer l(x, weight.size(0), taps, stride);
  return WinogradConvolution::apply(x.contiguous(at::MemoryFormat::ChannelsLast),
                                    transformed(weight, l), bias, taps, stride);
}

}  // namespace shoal
