#include "src/models/amx_convolution.h"

#include "shoal/core/error.h"
#include "src/core/cpu_features.h"

#if SHOAL_X86_KERNELS
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <immintrin.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <cstring>

#include "src/core/divide_up.h"
#include "src/models/aligned_scratch.h"
#include "src/models/amx_tiles.h"
#include "src/models/panel_bf16.h"
#include "src/models/panel_kernels.h"
#include "src/models/weight_chunks.h"

namespace shoal {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::tensor_list;

using Bits = std::uint16_t;  // a number in bfloat16

constexpr std::int64_t kSquare = 2 * kTile;  // rows and columns of a square of sums

std::int64_t round_up(std::int64_t n, std::int64_t to) { return divide_up(n, to) * to; }

const Bits* bits_of(const at::Tensor& t) {
  return reinterpret_cast<const Bits*>(t.const_data_ptr<at::BFloat16>());
}
Bits* bits_of_mutable(const at::Tensor& t) {
  return reinterpret_cast<Bits*>(t.data_ptr<at::BFloat16>());
}

// Cells of an image are numbered along rows. An output has the number of the first cell that it
// reads, so `taps - 1` numbers at the end of each row have no output.
struct AmxLayer {
  AmxLayer(const at::Tensor& x, std::int64_t number_of_filters, std::int64_t cells_across,
           std::int64_t pixels_across)
      : images(x.size(0)),
        height(x.size(2)),
        width(x.size(3)),
        channels(x.size(1)),
        filters(number_of_filters),
        taps(cells_across),
        stride(pixels_across),
        rows(height / stride),
        columns(width / stride) {}

  std::int64_t cell() const { return stride * stride * channels; }  // numbers of a cell
  std::int64_t cells() const { return rows * columns; }
  std::int64_t out_rows() const { return rows - taps + 1; }
  std::int64_t out_columns() const { return columns - taps + 1; }
  std::int64_t outputs() const { return out_rows() * columns; }
  std::int64_t tap(std::int64_t i, std::int64_t j) const { return i * columns + j; }
  std::int64_t last_tap() const { return tap(taps - 1, taps - 1); }
  std::int64_t in_size() const { return height * width * channels; }
  std::int64_t out_size() const { return out_rows() * out_columns() * filters; }

  std::int64_t images, height, width, channels, filters, taps, stride;
  std::int64_t rows, columns;  // of cells in an image
};

// The factors of weights [taps * taps, k, n] as tiles: [taps * taps, k / 32, n / 16, 16, 16, 2].
at::Tensor as_tiles(const at::Tensor& weights) {
  return weights.to(at::kBFloat16)
      .view({weights.size(0), -1, kTile, 2, weights.size(2) / kTile, kTile})
      .permute({0, 1, 4, 2, 5, 3})
      .contiguous();
}

// [filters, C, taps * stride, taps * stride] to [taps * taps, cell, filters].
at::Tensor by_cells(const at::Tensor& weight, const AmxLayer& l) {
  return weight.reshape({l.filters, l.channels, l.taps, l.stride, l.taps, l.stride})
      .permute({2, 4, 3, 5, 1, 0})
      .reshape({l.taps * l.taps, l.cell(), l.filters});
}

// The inverse for a gradient [filters, taps * taps, cell].
at::Tensor by_pixels(const at::Tensor& gradient, const AmxLayer& l) {
  return gradient.view({l.filters, l.taps, l.taps, l.stride, l.stride, l.channels})
      .permute({0, 5, 1, 3, 2, 4})
      .reshape({l.filters, l.channels, l.taps * l.stride, l.taps * l.stride});
}

// to[m][n] = sum over taps t and k of from[m + sign * shift of t][k] * weights[t][k][n].
struct ShiftedProduct {
  const AmxLayer& layer;
  std::int64_t sign;          // of the shifts
  const Bits* from;           // [cells][depth], readable as far as shifts and squares reach
  std::int64_t depth;         // a multiple of kTileDepth
  const Bits* weights;        // as_tiles()
  std::int64_t count, width;  // of m and n; the width is a multiple of kSquare
  float* to;                  // [count rounded up to squares][width]
};

SHOAL_AMX void multiply_shifted(const ShiftedProduct& p) {
  constexpr std::int64_t kTileSize = kTile * kTileDepth;
  const auto tiles = p.width / kTile;
  for (std::int64_t n = 0; n < p.width; n += kSquare) {
    for (std::int64_t m = 0; m < p.count; m += kSquare) {
      clear_square();
      const Bits* weights = p.weights + n / kTile * kTileSize;
      for (std::int64_t i = 0; i < p.layer.taps; ++i) {
        for (std::int64_t j = 0; j < p.layer.taps; ++j) {
          const Bits* from = p.from + (m + p.sign * p.layer.tap(i, j)) * p.depth;
          for (std::int64_t k = 0; k < p.depth; k += kTileDepth, weights += tiles * kTileSize)
            add_to_square(from + k, p.depth * 2, weights, 64, kTileSize * 2);
        }
      }
      store_square(p.to + m * p.width + n, p.width);
    }
  }
}

// to[f][t][c] += sum over m of from[f][m] * cells[m + shift of t][c].
struct WeightProduct {
  const AmxLayer& layer;
  const Bits* from;    // [filters][count]
  std::int64_t count;  // of m, a multiple of kTileDepth
  // [cells / 2][cell][2]: cells 0 and 1, 2 and 3, and so on; cells 1 and 2, 3 and 4, and so on.
  const Bits* pairs[2];
  float* to;  // [filters][taps * taps][cell]
};

SHOAL_AMX void add_products(const WeightProduct& p) {
  const auto cell = p.layer.cell(), width = p.layer.taps * p.layer.taps * cell;
  for (std::int64_t i = 0; i < p.layer.taps; ++i) {
    for (std::int64_t j = 0; j < p.layer.taps; ++j) {
      const auto shift = p.layer.tap(i, j);
      const Bits* const pairs = p.pairs[shift % 2] + shift / 2 * cell * 2;
      for (std::int64_t c = 0; c < cell; c += kSquare) {
        for (std::int64_t f = 0; f < p.layer.filters; f += kSquare) {
          float* const to = p.to + f * width + (i * p.layer.taps + j) * cell + c;
          load_square(to, width);
          for (std::int64_t m = 0; m < p.count; m += kTileDepth)
            add_to_square(p.from + f * p.count + m, p.count * 2, pairs + m * cell + c * 2, cell * 4,
                          64);
          store_square(to, width);
        }
      }
    }
  }
}

SHOAL_AMX inline void round_numbers(__m512 numbers, Bits* to) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), (__m256i)_mm512_cvtneps_pbh(numbers));
}

SHOAL_AMX void copy_numbers(const std::uint8_t* from, std::int64_t n, Bits* to) {
  for (std::int64_t i = 0; i < n; i += kTile) {
    const auto bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i));
    const auto wide = _mm512_maskz_cvtepu8_epi32(kAllLanes, bytes);
    round_numbers(_mm512_maskz_cvtepi32_ps(kAllLanes, wide), to + i);
  }
}
void copy_numbers(const Bits* from, std::int64_t n, Bits* to) {
  std::memcpy(to, from, static_cast<std::size_t>(n) * sizeof(Bits));
}

// An image [height][width][channels] as cells.
template <class Number>
SHOAL_AMX void load_cells(const AmxLayer& l, const Number* image, Bits* to) {
  const auto part = l.stride * l.channels;  // of a cell, in a row of pixels
  for (std::int64_t i = 0; i < l.rows; ++i)
    for (std::int64_t a = 0; a < l.stride; ++a) {
      const Number* from = image + (i * l.stride + a) * l.width * l.channels;
      for (std::int64_t j = 0; j < l.columns; ++j)
        copy_numbers(from + j * part, part, to + (i * l.columns + j) * l.cell() + a * part);
    }
}

// Cells in float32 as an image in bfloat16.
SHOAL_AMX void store_cells(const AmxLayer& l, const float* from, Bits* image) {
  const auto part = l.stride * l.channels;
  for (std::int64_t i = 0; i < l.rows; ++i)
    for (std::int64_t a = 0; a < l.stride; ++a) {
      Bits* to = image + (i * l.stride + a) * l.width * l.channels;
      for (std::int64_t j = 0; j < l.columns; ++j, to += part) {
        const float* cell = from + (i * l.columns + j) * l.cell() + a * part;
        for (std::int64_t n = 0; n < part; n += kTile)
          round_numbers(_mm512_loadu_ps(cell + n), to + n);
      }
    }
}

SHOAL_AMX void store_outputs(const AmxLayer& l, const float* sums, const float* bias, Bits* to) {
  for (std::int64_t i = 0; i < l.out_rows(); ++i)
    for (std::int64_t j = 0; j < l.out_columns(); ++j, to += l.filters) {
      const float* from = sums + l.tap(i, j) * l.filters;
      for (std::int64_t f = 0; f < l.filters; f += kTile) {
        const auto y = _mm512_add_ps(_mm512_loadu_ps(from + f), _mm512_loadu_ps(bias + f));
        round_numbers(relu(y), to + f);
      }
    }
}

// Writes the gradient of the sums, [outputs][filters]: zero where there is no output, and where the
// ReLU's output is zero. Adds it to the gradient of the bias.
SHOAL_AMX void load_gradient(const AmxLayer& l, const Bits* y, const Bits* gradient, Bits* to,
                             float* bias_gradient) {
  const auto none = l.taps - 1;
  for (std::int64_t i = 0; i < l.out_rows(); ++i) {
    for (std::int64_t j = 0; j < l.out_columns(); ++j) {
      for (std::int64_t f = 0; f < l.filters; f += kTileDepth) {
        const auto value = _mm512_loadu_si512(y + f);
        // As bits, numbers above zero are positive integers, and so are NaNs.
        const auto passes =
            _mm512_cmpgt_epi16_mask(value, _mm512_setzero_si512()) |
            _mm512_cmpgt_epu16_mask(value, _mm512_set1_epi16(static_cast<short>(0xFF80)));
        _mm512_storeu_si512(to + f, _mm512_maskz_loadu_epi16(passes, gradient + f));
        for (auto half = f; half < f + kTileDepth; half += kTile) {
          const auto bits = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(to + half));
          const auto upper =
              _mm512_maskz_slli_epi32(kAllLanes, _mm512_maskz_cvtepu16_epi32(kAllLanes, bits), 16);
          _mm512_storeu_ps(
              bias_gradient + half,
              _mm512_add_ps(_mm512_loadu_ps(bias_gradient + half), _mm512_castsi512_ps(upper)));
        }
      }
      y += l.filters, gradient += l.filters, to += l.filters;
    }
    std::fill_n(to, none * l.filters, Bits{0});
    to += none * l.filters;
  }
}

// Rows `first` and `first + 1`, then the next two, and so on, in pairs: [count / 2][width][2].
SHOAL_AMX void interleave_rows(const Bits* from, std::int64_t first, std::int64_t count,
                               std::int64_t width, Bits* to) {
  alignas(64) Bits low[32], high[32];
  for (int i = 0; i < 32; ++i) {
    const int lane = i / 2 + (i % 2 ? 32 : 0);
    low[i] = static_cast<Bits>(lane), high[i] = static_cast<Bits>(lane + 16);
  }
  const auto low_lanes = _mm512_load_si512(low), high_lanes = _mm512_load_si512(high);
  for (std::int64_t r = 0; r < count; r += 2) {
    const Bits *even = from + (first + r) * width, *odd = even + width;
    for (std::int64_t n = 0; n < width; n += kTileDepth, to += 2 * kTileDepth) {
      const auto a = _mm512_loadu_si512(even + n), b = _mm512_loadu_si512(odd + n);
      _mm512_storeu_si512(to, _mm512_permutex2var_epi16(a, low_lanes, b));
      _mm512_storeu_si512(to + kTileDepth, _mm512_permutex2var_epi16(a, high_lanes, b));
    }
  }
}

// Buffers for one image. Images of a thread share them, so one object is alive at a time.
class AmxImage {
 public:
  explicit AmxImage(const AmxLayer& layer)
      : l_(layer),
        outputs_(round_up(l_.outputs(), kSquare)),
        cells_(round_up(std::max(l_.cells(), outputs_ + l_.last_tap() + 2), kSquare)) {
    thread_local AlignedScratch<Bits> cells, gradient, transposed, even, odd, pairs;
    thread_local AlignedScratch<float> sums;
    input_ = cells.take(cells_ * l_.cell());
    std::fill_n(input_, cells_ * l_.cell(), Bits{0});
    // Before the gradient of the first output, and behind that of the last one, it is zero.
    const auto size = (l_.last_tap() + cells_) * l_.filters;
    gradient_ = gradient.take(size);
    std::fill_n(gradient_, size, Bits{0});
    gradient_ += l_.last_tap() * l_.filters;
    gradient_pairs_ = pairs.take(outputs_ * l_.filters);
    transposed_ = transposed.take(outputs_ * l_.filters);
    even_ = even.take(cells_ * l_.cell());
    odd_ = odd.take(cells_ * l_.cell());
    sums_ = sums.take(cells_ * std::max(l_.cell(), l_.filters));
  }

  void load(const at::Tensor& x, std::int64_t n) {
    if (x.scalar_type() == at::kByte)
      load_cells(l_, x.const_data_ptr<std::uint8_t>() + n * l_.in_size(), input_);
    else
      load_cells(l_, bits_of(x) + n * l_.in_size(), input_);
  }
  void forward(const at::Tensor& weights, const at::Tensor& bias, Bits* y) {
    multiply_shifted({l_, 1, input_, l_.cell(), bits_of(weights), l_.outputs(), l_.filters, sums_});
    store_outputs(l_, sums_, bias.const_data_ptr<float>(), y);
  }
  void load_output_gradient(const Bits* y, const Bits* gradient, float* of_bias) {
    load_gradient(l_, y, gradient, gradient_, of_bias);
  }
  void add_weight_gradient(float* to) {
    interleave_rows(gradient_, 0, outputs_, l_.filters, gradient_pairs_);
    panel_kernels().transpose(reinterpret_cast<const float*>(gradient_pairs_), outputs_ / 2,
                              l_.filters, reinterpret_cast<float*>(transposed_));
    interleave_rows(input_, 0, cells_ - 2, l_.cell(), even_);
    interleave_rows(input_, 1, cells_ - 2, l_.cell(), odd_);
    add_products({l_, transposed_, outputs_, {even_, odd_}, to});
  }
  // transposed: the weights as_tiles() with filters and cell exchanged.
  void input_gradient(const at::Tensor& transposed, Bits* to) {
    multiply_shifted(
        {l_, -1, gradient_, l_.filters, bits_of(transposed), l_.cells(), l_.cell(), sums_});
    store_cells(l_, sums_, to);
  }

 private:
  ConfiguredTiles tiles_;
  const AmxLayer& l_;
  std::int64_t outputs_, cells_;  // rounded up to what is read
  Bits *input_, *gradient_, *gradient_pairs_, *transposed_, *even_, *odd_;
  float* sums_;
};

class AmxConvolution : public torch::autograd::Function<AmxConvolution> {
 public:
  // x: channels last; weight, bias: float32.
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& weight,
                            const at::Tensor& bias, std::int64_t stride) {
    const AmxLayer l(x, weight.size(0), weight.size(2) / stride, stride);
    auto y = at::empty({l.images, l.filters, l.out_rows(), l.out_columns()},
                       bias.options().dtype(at::kBFloat16), at::MemoryFormat::ChannelsLast);
    const auto weights = as_tiles(by_cells(weight, l)), biases = bias.contiguous();
    at::parallel_for(0, l.images, 1, [&](std::int64_t from, std::int64_t end) {
      AmxImage image(l);
      for (auto n = from; n < end; ++n) {
        image.load(x, n);
        image.forward(weights, biases, bits_of_mutable(y) + n * l.out_size());
      }
    });
    context->save_for_backward({x, weight, y});
    context->saved_data["stride"] = stride;
    return y;
  }

  static tensor_list backward(AutogradContext* context, tensor_list gradient) {
    require(!at::GradMode::is_enabled(),
            "amx_convolution: found a second derivative, expected at most one; use conv2d");
    const auto saved = context->get_saved_variables();
    const auto &x = saved[0], &weight = saved[1], &y = saved[2];
    const auto stride = context->saved_data["stride"].toInt();
    const AmxLayer l(x, weight.size(0), weight.size(2) / stride, stride);
    const auto y_gradient =
        gradient[0].to(at::kBFloat16).contiguous(at::MemoryFormat::ChannelsLast);
    at::Tensor x_gradient, transposed;
    if (context->needs_input_grad(0)) {
      x_gradient = at::zeros_like(x);
      transposed = as_tiles(by_cells(weight, l).transpose(1, 2).contiguous());
    }
    const auto chunk = images_of_chunk(l.images, weight.numel());
    const auto chunks = divide_up(l.images, chunk);
    const auto of_weights =
        at::zeros({chunks, l.filters, l.taps * l.taps, l.cell()}, weight.options());
    const auto of_bias = at::zeros({chunks, l.filters}, weight.options());
    at::parallel_for(0, chunks, 1, [&](std::int64_t from, std::int64_t end) {
      AmxImage image(l);
      for (auto n = from * chunk; n < std::min(end * chunk, l.images); ++n) {
        const auto c = n / chunk, out = n * l.out_size();
        image.load(x, n);
        image.load_output_gradient(bits_of(y) + out, bits_of(y_gradient) + out,
                                   of_bias.data_ptr<float>() + c * l.filters);
        image.add_weight_gradient(of_weights.data_ptr<float>() + c * weight.numel());
        if (x_gradient.defined())
          image.input_gradient(transposed, bits_of_mutable(x_gradient) + n * l.in_size());
      }
    });
    return {x_gradient, by_pixels(of_weights.sum(0), l), of_bias.sum(0), {}};
  }
};

}  // namespace

bool fits_amx_convolution(const at::Tensor& x, const at::Tensor& weight, std::int64_t stride) {
  const auto size = weight.size(2), channels = weight.size(1);
  return panel_amx() && x.is_cpu() && weight.scalar_type() == at::kFloat && size % stride == 0 &&
         size == weight.size(3) && weight.size(0) % kSquare == 0 && x.size(1) == channels &&
         channels * stride * stride % kSquare == 0 && channels * stride % kTile == 0 &&
         x.size(2) >= size && x.size(3) >= size;
}

at::Tensor amx_convolution(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                           std::int64_t stride) {
  return AmxConvolution::apply(x.contiguous(at::MemoryFormat::ChannelsLast), weight, bias, stride);
}

}  // namespace shoal

#else

namespace shoal {

bool fits_amx_convolution(const at::Tensor&, const at::Tensor&, std::int64_t) { return false; }

at::Tensor amx_convolution(const at::Tensor&, const at::Tensor&, const at::Tensor&, std::int64_t) {
  throw Error("amx_convolution: this program has no kernels for x86");
}

}  // namespace shoal

#endif
