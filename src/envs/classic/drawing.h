#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "shoal/envs/env.h"

namespace shoal {

// An anti-aliased image of filled shapes on white, for people to watch; not optimised for speed.
class Drawing {
 public:
  using Point = std::array<double, 2>;  // in task units, y upwards
  using Colour = std::array<std::uint8_t, 3>;
  static constexpr Colour kBlack{0, 0, 0};

  struct Size {
    int height, width;  // pixels
    double scale;       // pixels per unit
    Point origin;       // pixels from the lower left corner
  };
  Drawing(Image& image, const Size& size);

  // Convex; the corners in order, in either orientation.
  void polygon(std::span<const Point> corners, Colour colour);
  void disc(Point centre, double radius, Colour colour);
  void line(Point from, Point to, double width, Colour colour);
  // Connected line segments.
  void path(std::span<const Point> points, double width, Colour colour);

 private:
  Point pixel(Point point) const;
  // Blends the colour in with weight coverage(x, y), from 0 to 1, within [low, high].
  template <class Coverage>
  void paint(Point low, Point high, Colour colour, Coverage coverage);

  Image& image_;
  Size size_;
};

// `point`, rotated counterclockwise about the origin by `angle` radians, then translated by `at`.
Drawing::Point placed(Drawing::Point point, double angle, Drawing::Point at);

}  // namespace shoal
