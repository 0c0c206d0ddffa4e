#pragma once

#include <cstdint>
#include <vector>

namespace shoal {

// Shrinks a one-byte picture by averaging the area under each new pixel, pixel for pixel as
// OpenCV's INTER_AREA does: in float32, by its table of weights, in its order of summation,
// rounding halves to even.
//
// From 210 x 160 to 84 x 84 the weights are fifths and fortieths, so whole numbers give the same
// result faster; only where the exact value lies half-way does float32's rounding decide, and there
// it is asked.
class AreaResize {
 public:
  // Neither side may grow: size <= height, size <= width.
  AreaResize(int height, int width, int size);

  // Computes row y of the new picture.
  void row(const std::uint8_t* picture, int y, std::uint8_t* out);
  // The rows of the old picture that row y of the new one is made from: [first, last].
  int first_row(int y) const { return rows_[begin_y_[y]].from; }
  int last_row(int y) const { return rows_[begin_y_[y + 1] - 1].from; }

 private:
  // A pixel (or row) of the old picture and its share in a new one. Those of new pixel x are
  // [begin_x_[x], begin_x_[x+1]).
  struct Share {
    int from;
    float weight;
  };
  static std::vector<Share> shares(int from, int to, std::vector<int>& begin);

  void row_by_integers(const std::uint8_t* picture, int y, std::uint8_t* out);
  std::uint8_t pixel(const std::uint8_t* picture, int y, int x) const;

  int width_, size_;
  bool integers_;
  std::vector<int> begin_x_, begin_y_;
  std::vector<Share> columns_, rows_;
};

}  // namespace shoal
