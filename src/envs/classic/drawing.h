#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "shoal/envs/env.h"

namespace shoal {

// A picture of filled shapes with smooth edges, on white. For people to watch: speed is no concern.
class Drawing {
 public:
  using Point = std::array<double, 2>;  // in the units of the task, y upwards
  using Colour = std::array<std::uint8_t, 3>;
  static constexpr Colour kBlack{0, 0, 0};

  struct Size {
    int height, width;  // pixels
    double scale;       // pixels of a unit
    Point origin;       // pixels from the lower left corner
  };
  Drawing(Image& image, const Size& size);

  // Convex, its corners in order, either way round.
  void polygon(std::span<const Point> corners, Colour colour);
  void disc(Point centre, double radius, Colour colour);
  void line(Point from, Point to, double width, Colour colour);
  // One line after the other.
  void path(std::span<const Point> points, double width, Colour colour);

 private:
  Point pixel(Point point) const;
  // Blends the colour in where coverage(x, y), from 0 to 1, says so, within [low, high].
  template <class Coverage>
  void paint(Point low, Point high, Colour colour, Coverage coverage);

  Image& image_;
  Size size_;
};

// `point`, turned counterclockwise about the origin by an angle in radians and then moved.
Drawing::Point placed(Drawing::Point point, double angle, Drawing::Point at);

}  // namespace shoal
