#pragma once

#include <cmath>
#include <cstdint>

#include "shoal/core/host_device.h"

namespace shoal {

struct Projection {
  const float* probability = nullptr;  // [N, atoms]
  const float* reward = nullptr;       // [N]
  const float* discount = nullptr;     // [N]
  const float* support = nullptr;      // [atoms], ascending and evenly spaced; at least 2
  float* out = nullptr;                // [N, atoms]
  std::int64_t N = 0, atoms = 0;
};

// Position of a return in the support: between atoms `below` and below + 1, at the fraction
// `upper`.
struct PlaceInSupport {
  double below, upper;
};

// The support moved by row n: return i is at position offset + discount * i, in units of the gap
// from the lowest atom. In double precision, and with the gap computed from both ends: a rounded
// gap between two neighbours, times the number of atoms, would shift returns at the upper end off
// their atoms.
struct MovedSupport {
  double offset, discount, top;
};
SHOAL_HOST_DEVICE inline MovedSupport moved_support(const Projection& in, std::int64_t n) {
  const double low = in.support[0], high = in.support[in.atoms - 1];
  const auto top = static_cast<double>(in.atoms - 1);
  const double reward = in.reward[n], discount = in.discount[n];
  return {(reward + (discount - 1) * low) * top / (high - low), discount, top};
}

// For NaN: below = top - 1, upper = NaN.
SHOAL_HOST_DEVICE inline PlaceInSupport place_in_support(const MovedSupport& moved,
                                                         std::int64_t i) {
  double place = moved.offset + moved.discount * static_cast<double>(i);
  place = place < 0 ? 0 : place > moved.top ? moved.top : place;
  // The highest return gets below = top - 1, upper = 1.
  const double below = place < moved.top ? std::floor(place) : moved.top - 1;
  return {below, place - below};
}

// The categorical projection (Bellemare et al., arXiv 1707.06887, algorithm 1), as in project(), of
// row n and atom j. It gathers the atom's contributions in the order in which project() scatters
// them: first from returns above the atom, then from those below. So the result does not depend on
// the order of threads.
SHOAL_HOST_DEVICE inline void project_atom(const Projection& in, std::int64_t n, std::int64_t j) {
  const float* probability = in.probability + n * in.atoms;
  const auto moved = moved_support(in, n);
  const auto atom = static_cast<double>(j);
  double sum = 0;
  for (std::int64_t i = 0; i < in.atoms; ++i) {
    const auto [below, upper] = place_in_support(moved, i);
    if (below == atom) sum += probability[i] * (1 - upper);
  }
  for (std::int64_t i = 0; i < in.atoms; ++i) {
    const auto [below, upper] = place_in_support(moved, i);
    if (below + 1 == atom) sum += probability[i] * upper;
  }
  in.out[n * in.atoms + j] = static_cast<float>(sum);
}

}  // namespace shoal
