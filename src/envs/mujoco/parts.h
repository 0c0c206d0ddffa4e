#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "src/envs/mujoco/task.h"

namespace shoal {

// What the tasks of MuJoCo are made of. Sums are made in NumPy's order, so that they have its bits.

// The sum of number(0) to number(n - 1): eight sums side by side, added as a tree, then what is
// left over. NumPy cuts more than 128 numbers into pieces; no task has as many.
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

// In the numbers' own precision.
template <class T>
T sum_of_squares(std::span<const T> x) {
  return numpy_sum<T>(x.size(), [x](std::size_t i) { return x[i] * x[i]; });
}

// What an action costs: in float32, the weight, too.
inline float qpg_cost(double weight, std::span<const float> action) {
  return static_cast<float>(weight) * sum_of_squares(action);
}

// Writes numbers, cut to [-limit, limit] where there is a limit; returns where the next ones go.
float* put(std::span<const double> numbers, float* out);
float* put_cut(std::span<const double> numbers, double limit, float* out);

// Adds to every number one drawn from [-scale, scale).
void add_uniform(std::span<double> numbers, double scale, Rng& rng);

// Where episodes start: the model's positions, and velocities of 0, with noise added. That of the
// velocities is uniform like that of the positions, or normal with `scale` as its deviation.
using MujocoStart = std::function<void(const MujocoPhysics&, Rng&)>;
MujocoStart uniform_start(double scale);
MujocoStart normal_start(double scale);

// "x_position", "y_position", "distance_from_origin".
void report_place(const MujocoPhysics& physics, MujocoInfos& infos);

// One float32 each, with what is kept of them at the end of an episode: the sum of rewards, nothing
// of velocities, the last one of all others.
std::vector<InfoSpec> mujoco_infos(const std::vector<std::string>& names);

}  // namespace shoal
