#include "src/envs/classic/drawing.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace shoal {

Drawing::Drawing(Image& image, const Size& size) : image_(image), size_(size) {
  image.height = size.height;
  image.width = size.width;
  image.rgb.assign(std::size_t{3} * size.height * size.width, 255);
}

Drawing::Point Drawing::pixel(Point point) const {
  return {size_.origin[0] + size_.scale * point[0],
          size_.height - size_.origin[1] - size_.scale * point[1]};
}

template <class Coverage>
void Drawing::paint(Point low, Point high, Colour colour, Coverage coverage) {
  const auto first = [](double x) { return std::max(0, static_cast<int>(std::floor(x)) - 1); };
  const auto last = [](double x, int end) {
    return std::min(end - 1, static_cast<int>(std::ceil(x)) + 1);
  };
  for (int y = first(low[1]); y <= last(high[1], image_.height); ++y)
    for (int x = first(low[0]); x <= last(high[0], image_.width); ++x) {
      const double share = std::clamp(coverage(x + 0.5, y + 0.5), 0.0, 1.0);
      auto* rgb = &image_.rgb[3 * (static_cast<std::size_t>(y) * image_.width + x)];
      for (std::size_t c = 0; c < 3; ++c)
        rgb[c] = static_cast<std::uint8_t>(std::lround(rgb[c] + share * (colour[c] - rgb[c])));
    }
}

void Drawing::polygon(std::span<const Point> corners, Colour colour) {
  std::vector<Point> p;
  for (const auto& corner : corners) p.push_back(pixel(corner));
  Point low = p[0], high = p[0];
  double area = 0;  // twice the signed area; the sign is the orientation of the corners
  for (std::size_t i = 0; i < p.size(); ++i) {
    const auto &a = p[i], &b = p[(i + 1) % p.size()];
    area += a[0] * b[1] - b[0] * a[1];
    for (std::size_t k = 0; k < 2; ++k) {
      low[k] = std::min(low[k], a[k]);
      high[k] = std::max(high[k], a[k]);
    }
  }
  paint(low, high, colour, [&](double x, double y) {
    double inside = std::numeric_limits<double>::infinity();  // pixels from the nearest edge
    for (std::size_t i = 0; i < p.size(); ++i) {
      const auto &a = p[i], &b = p[(i + 1) % p.size()];
      const double dx = b[0] - a[0], dy = b[1] - a[1];
      const double distance = (dx * (y - a[1]) - dy * (x - a[0])) / std::hypot(dx, dy);
      inside = std::min(inside, area > 0 ? distance : -distance);
    }
    return inside + 0.5;
  });
}

void Drawing::disc(Point centre, double radius, Colour colour) {
  const auto c = pixel(centre);
  const double r = radius * size_.scale;
  paint({c[0] - r, c[1] - r}, {c[0] + r, c[1] + r}, colour,
        [&](double x, double y) { return r - std::hypot(x - c[0], y - c[1]) + 0.5; });
}

void Drawing::line(Point from, Point to, double width, Colour colour) {
  const double dx = to[0] - from[0], dy = to[1] - from[1], length = std::hypot(dx, dy);
  const double x = -dy / length * width / 2, y = dx / length * width / 2;
  polygon(std::array<Point, 4>{{{from[0] + x, from[1] + y},
                                {to[0] + x, to[1] + y},
                                {to[0] - x, to[1] - y},
                                {from[0] - x, from[1] - y}}},
          colour);
}

void Drawing::path(std::span<const Point> points, double width, Colour colour) {
  for (std::size_t i = 1; i < points.size(); ++i) line(points[i - 1], points[i], width, colour);
}

Drawing::Point placed(Drawing::Point point, double angle, Drawing::Point at) {
  const double c = std::cos(angle), s = std::sin(angle);
  return {at[0] + c * point[0] - s * point[1], at[1] + s * point[0] + c * point[1]};
}

}  // namespace shoal
