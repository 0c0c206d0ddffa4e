#pragma once

#include <cstdint>
#include <vector>

namespace shoal {

// Shrinks a one-byte image by averaging the area under each new pixel, pixel for pixel as OpenCV's
// INTER_AREA: in float32, with its table of weights, its order of summation, and rounding half to
// even; where both sides are halved, in integers, rounding half up.
//
// From 210 x 160 to 84 x 84 the weights are fifths and fortieths, so integer arithmetic gives the
// same result faster. Only where the exact value is half-way does float32's rounding decide; there
// the float32 sum is computed.
class AreaResize {
 public:
  // The image must not grow: new_height <= height, new_width <= width.
  AreaResize(int height, int width, int new_height, int new_width);

  // Computes row y of the new image.
  void row(const std::uint8_t* picture, int y, std::uint8_t* out);
  // The rows of the old image that contribute to row y of the new one: [first, last].
  int first_row(int y) const { return rows_[begin_y_[y]].from; }
  int last_row(int y) const { return rows_[begin_y_[y + 1] - 1].from; }

 private:
  // A pixel (or row) of the old image and its weight in a new one. New pixel x has the shares
  // [begin_x_[x], begin_x_[x+1]).
  struct Share {
    int from;
    float weight;
  };
  static std::vector<Share> shares(int from, int to, std::vector<int>& begin);

  void row_by_integers(const std::uint8_t* picture, int y, std::uint8_t* out);
  void row_of_halves(const std::uint8_t* picture, int y, std::uint8_t* out) const;
  std::uint8_t pixel(const std::uint8_t* picture, int y, int x) const;

  int width_, new_width_;
  bool integers_, halves_;
  std::vector<int> begin_x_, begin_y_;
  std::vector<Share> columns_, rows_;
};

}  // namespace shoal
