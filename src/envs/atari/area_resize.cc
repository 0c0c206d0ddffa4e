#include "src/envs/atari/area_resize.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace shoal {
namespace {

// The one case with a fast path. A new row covers 5/2 old rows, a new column 40/21 old columns: in
// units of 1/2 and 1/21 the weights are integers, and those of one new pixel sum to 5 * 40.
constexpr int kHeight = 210, kWidth = 160, kSize = 84, kTotal = 200;
constexpr int kTaps = 3;  // no new pixel covers more old columns

struct Column {
  int from;
  std::array<std::uint16_t, kTaps> weight;
};

constexpr std::array<Column, kSize> integer_columns() {
  std::array<Column, kSize> columns{};
  for (int x = 0; x < kSize; ++x) {
    const int begin = 40 * x, end = begin + 40;
    columns[x].from = std::min(begin / 21, kWidth - kTaps);
    for (int k = 0; k < kTaps; ++k) {
      const int left = 21 * (columns[x].from + k);
      columns[x].weight[k] =
          static_cast<std::uint16_t>(std::max(0, std::min(end, left + 21) - std::max(begin, left)));
    }
  }
  return columns;
}
constexpr auto kColumns = integer_columns();

}  // namespace

AreaResize::AreaResize(int height, int width, int new_height, int new_width)
    : width_(width),
      new_width_(new_width),
      integers_(height == kHeight && width == kWidth && new_height == kSize && new_width == kSize),
      halves_(height == 2 * new_height && width == 2 * new_width),
      columns_(shares(width, new_width, begin_x_)),
      rows_(shares(height, new_height, begin_y_)) {}

std::vector<AreaResize::Share> AreaResize::shares(int from, int to, std::vector<int>& begin) {
  constexpr double kNothing = 1e-3;  // OpenCV ignores smaller overlaps
  const double scale = 1.0 / (static_cast<double>(to) / from);
  std::vector<Share> all;
  for (int x = 0; x < to; ++x) {
    begin.push_back(static_cast<int>(all.size()));
    const double left = x * scale, right = left + scale;
    const double cell = std::min(scale, from - left);
    const int last = std::min(static_cast<int>(std::floor(right)), from - 1);
    const int first = std::min(static_cast<int>(std::ceil(left)), last);
    if (first - left > kNothing)
      all.push_back({first - 1, static_cast<float>((first - left) / cell)});
    for (int i = first; i < last; ++i) all.push_back({i, static_cast<float>(1.0 / cell)});
    if (right - last > kNothing)
      all.push_back({last, static_cast<float>(std::min(std::min(right - last, 1.0), cell) / cell)});
  }
  begin.push_back(static_cast<int>(all.size()));
  return all;
}

void AreaResize::row(const std::uint8_t* picture, int y, std::uint8_t* out) {
  if (integers_) return row_by_integers(picture, y, out);
  if (halves_) return row_of_halves(picture, y, out);
  for (int x = 0; x < new_width_; ++x) out[x] = pixel(picture, y, x);
}

void AreaResize::row_by_integers(const std::uint8_t* picture, int y, std::uint8_t* out) {
  const std::uint8_t* a = picture + (y / 2 * 5 + y % 2 * 2) * kWidth;
  const std::uint8_t *b = a + kWidth, *c = b + kWidth;
  const int top = y % 2 == 0 ? 2 : 1, bottom = 3 - top;
  std::array<std::uint16_t, kWidth> high;
  for (int x = 0; x < kWidth; ++x)
    high[x] = static_cast<std::uint16_t>(top * a[x] + 2 * b[x] + bottom * c[x]);

  std::array<std::uint16_t, kSize> sum;  // at most 255 * 200
  for (int x = 0; x < kSize; ++x) {
    const auto& [from, weight] = kColumns[x];
    sum[x] = static_cast<std::uint16_t>(weight[0] * high[from] + weight[1] * high[from + 1] +
                                        weight[2] * high[from + 2]);
  }
  int ties = 0;
  for (int x = 0; x < kSize; ++x) {
    const auto half_up = static_cast<std::uint16_t>(sum[x] + kTotal / 2);
    const auto quotient = static_cast<std::uint16_t>(half_up / kTotal);
    ties += quotient * kTotal == half_up;
    out[x] = static_cast<std::uint8_t>(quotient);
  }
  for (int x = 0; ties > 0 && x < kSize; ++x)
    if ((sum[x] + kTotal / 2) % kTotal == 0) out[x] = pixel(picture, y, x);
}

void AreaResize::row_of_halves(const std::uint8_t* picture, int y, std::uint8_t* out) const {
  const std::uint8_t* a = picture + 2 * y * width_;
  const std::uint8_t* b = a + width_;
  for (int x = 0; x < new_width_; ++x, a += 2, b += 2)
    out[x] = static_cast<std::uint8_t>((a[0] + a[1] + b[0] + b[1] + 2) / 4);
}

std::uint8_t AreaResize::pixel(const std::uint8_t* picture, int y, int x) const {
  float sum = 0;
  for (int j = begin_y_[y]; j < begin_y_[y + 1]; ++j) {
    const std::uint8_t* line = picture + rows_[j].from * width_;
    float across = 0;
    for (int i = begin_x_[x]; i < begin_x_[x + 1]; ++i)
      across += static_cast<float>(line[columns_[i].from]) * columns_[i].weight;
    sum += rows_[j].weight * across;
  }
  return static_cast<std::uint8_t>(std::clamp(std::lrintf(sum), 0L, 255L));
}

}  // namespace shoal
