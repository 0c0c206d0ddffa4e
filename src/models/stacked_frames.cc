#include "src/models/stacked_frames.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <array>
#include <vector>

#include "src/compute/accelerator.h"
#include "src/core/cpu_features.h"

#if SHOAL_X86_KERNELS
#include <immintrin.h>
#endif

namespace shoal {

namespace {

constexpr int kStack = 4;
using Frames = std::array<const std::uint8_t*, kStack>;

template <class Number>
void interleave(const Frames& frames, std::int64_t from, std::int64_t pixels, Number* out) {
  for (auto p = from; p < pixels; ++p)
    for (std::size_t k = 0; k < kStack; ++k)
      out[p * kStack + static_cast<std::int64_t>(k)] = frames[k][p];
}

#if SHOAL_X86_KERNELS
SHOAL_TARGET("avx2") void store(__m128i bytes, float* to) {
  _mm256_storeu_ps(to, _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(bytes)));
  _mm256_storeu_ps(to + 8, _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_srli_si128(bytes, 8))));
}

void store(__m128i bytes, std::uint8_t* to) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(to), bytes);
}

// Sixteen pixels of four frames at a time: bytes are interleaved in registers, then widened.
template <class Number>
SHOAL_TARGET("avx2")
void interleave_avx2(const Frames& frames, std::int64_t pixels, Number* out) {
  auto load = [&](std::size_t k, std::int64_t p) __attribute__((target("avx2"), always_inline)) {
    return _mm_loadu_si128(reinterpret_cast<const __m128i*>(frames[k] + p));
  };
  std::int64_t p = 0;
  for (; p + 16 <= pixels; p += 16) {
    const auto a = load(0, p), b = load(1, p), c = load(2, p), d = load(3, p);
    const __m128i ab[2] = {_mm_unpacklo_epi8(a, b), _mm_unpackhi_epi8(a, b)};
    const __m128i cd[2] = {_mm_unpacklo_epi8(c, d), _mm_unpackhi_epi8(c, d)};
    for (int half = 0; half < 2; ++half) {
      const __m128i abcd[2] = {_mm_unpacklo_epi16(ab[half], cd[half]),
                               _mm_unpackhi_epi16(ab[half], cd[half])};
      for (int quarter = 0; quarter < 2; ++quarter) {
        store(abcd[quarter], out + (p + half * 8 + quarter * 4) * kStack);
      }
    }
  }
  interleave(frames, p, pixels, out);
}
#endif

template <class Number>
at::Tensor all(const FourFrames& frames) {
  const auto size = frames.height() * frames.width() * kStack;
  auto out = at::empty({frames.size(), frames.height(), frames.width(), kStack},
                       c10::CppTypeToScalarType<Number>::value);
  auto* to = out.template data_ptr<Number>();
  at::parallel_for(0, frames.size(), 8, [&](std::int64_t begin, std::int64_t end) {
    for (auto n = begin; n < end; ++n) frames.write(n, to + n * size);
  });
  return out.permute({0, 3, 1, 2});
}

// Whether the GPU kernel supports it: grey or colour bytes, stacked or not.
bool fits_kernel(const Observed& o, at::ScalarType dtype) {
  const auto dims = o.data.dim();
  return (dtype == at::kFloat || dtype == at::kBFloat16) && o.data.scalar_type() == at::kByte &&
         (dims == 3 || dims == 4) && o.data.is_contiguous();
}

at::Tensor by_kernel(const Accelerator& on, const Observed& o, at::ScalarType dtype) {
  const auto dims = o.data.dim();
  const auto height = o.data.size(dims - 2), width = o.data.size(dims - 1);
  const auto planes = dims == 4 ? o.data.size(1) : 1;
  const auto index = o.stacked() ? o.index.contiguous() : at::Tensor();
  const auto stack = o.stacked() ? index.size(1) : 1;
  auto out = at::empty({o.size(), height, width, stack * planes}, o.data.options().dtype(dtype));
  const c10::DeviceGuard guard(out.device());
  require_started("stack_frames",
                  on.kernels().stack_frames(
                      {.frame = o.data.const_data_ptr<std::uint8_t>(),
                       .index = o.stacked() ? index.const_data_ptr<std::int64_t>() : nullptr,
                       .out = out.data_ptr(),
                       .type = dtype == at::kFloat ? PixelType::kFloat32 : PixelType::kBfloat16,
                       .N = o.size(),
                       .stack = stack,
                       .planes = planes,
                       .pixels = height * width},
                      on.stream()));
  return out.permute({0, 3, 1, 2});
}

}  // namespace

bool FourFrames::fits(const Observed& o) {
  return o.stacked() && o.index.size(1) == kStack && o.data.dim() == 3 &&
         o.data.scalar_type() == at::kByte && o.data.device().is_cpu();
}

FourFrames::FourFrames(const Observed& o)
    : data_(o.data.contiguous()),
      index_(o.index.contiguous()),
      blank_(static_cast<std::size_t>(height() * width()), 0) {}

template <class Number>
void FourFrames::write_as(std::int64_t n, Number* out) const {
  const auto pixels = height() * width();
  const auto* rows = index_.const_data_ptr<std::int64_t>() + n * kStack;
  Frames stack;
  for (std::size_t k = 0; k < kStack; ++k)
    stack[k] =
        rows[k] < 0 ? blank_.data() : data_.const_data_ptr<std::uint8_t>() + rows[k] * pixels;
#if SHOAL_X86_KERNELS
  if (has_avx2()) {
    interleave_avx2(stack, pixels, out);
    return;
  }
#endif
  interleave(stack, 0, pixels, out);
}

template void FourFrames::write_as(std::int64_t, float*) const;
template void FourFrames::write_as(std::int64_t, std::uint8_t*) const;

at::Tensor images(const Observed& o, at::ScalarType dtype) {
  if (const auto* on = accelerator(o.data.device()); on != nullptr && fits_kernel(o, dtype))
    return by_kernel(*on, o, dtype);
  if (FourFrames::fits(o)) {
    const FourFrames frames(o);
    return dtype == at::kByte ? all<std::uint8_t>(frames) : all<float>(frames).to(dtype);
  }
  auto x = o.dense();
  if (x.dim() == 3) x = x.unsqueeze(1);
  if (x.dim() == 5) x = x.flatten(1, 2);  // stacked colour images: concatenates their channels
  return x.to(x.options().dtype(dtype), /*non_blocking=*/false, /*copy=*/false,
              at::MemoryFormat::ChannelsLast);
}

}  // namespace shoal
