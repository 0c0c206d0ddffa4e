#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "src/envs/mujoco/task.h"

namespace shoal {

// Building blocks of the MuJoCo tasks. Sums follow NumPy's order, so that they are bitwise equal.

// The sum of number(0) to number(n - 1): eight partial sums, added as a tree, then the remainder.
// NumPy splits sums of more than 128 numbers; no task has as many.
template <class T, class Number>
T numpy_sum(std::size_t n, const Number& number) {
  const std::size_t whole = n - n % 8;
  T total = 0;
  if (whole > 0) {
    T r[8] = {};
    for (std::size_t i = 0; i < whole; ++i) r[i % 8] += number(i);
    total = ((r[0] + r[1]) + (r[2] + r[3])) + ((r[4] + r[5]) + (r[6] + r[7]));
  }
  for (std::size_t i = whole; i < n; ++i) total += number(i);
  return total;
}

// In the precision of the numbers.
template <class T>
T sum_of_squares(std::span<const T> x) {
  return numpy_sum<T>(x.size(), [x](std::size_t i) { return x[i] * x[i]; });
}

// The control cost of an action, in float32 including the weight.
inline float control_cost(double weight, std::span<const float> action) {
  return static_cast<float>(weight) * sum_of_squares(action);
}

// Writes numbers, clipped to [-limit, limit] if there is a limit; returns the next write position.
float* put(std::span<const double> numbers, float* out);
float* put_cut(std::span<const double> numbers, double limit, float* out);

// Adds uniform noise from [-scale, scale) to every number.
void add_uniform(std::span<double> numbers, double scale, Rng& rng);

// Initial states: the model's positions and zero velocities, plus noise. The noise of the positions
// is uniform; that of the velocities is uniform, too, or normal with standard deviation `scale`.
using MujocoStart = std::function<void(const MujocoPhysics&, Rng&)>;
MujocoStart uniform_start(double scale);
MujocoStart normal_start(double scale);

// Reports "x_position", "y_position" and "distance_from_origin".
void report_place(const MujocoPhysics& physics, MujocoInfos& infos);

// One float32 info each. Over an episode, rewards are summed, velocities are dropped, and others
// keep the last value.
std::vector<InfoSpec> mujoco_infos(const std::vector<std::string>& names);

}  // namespace shoal
