#pragma once

#include <cmath>
#include <cstdint>

#include "shoal/core/host_device.h"

namespace shoal {

struct Projection {
  const float* probability = nullptr;  // [N, atoms]
  const float* reward = nullptr;       // [N]
  const float* discount = nullptr;     // [N]
  const float* support = nullptr;      // [atoms], ascending and evenly spaced; two or more
  float* out = nullptr;                // [N, atoms]
  std::int64_t N = 0, atoms = 0;
};

// Where a return lies in the support: above atom `below`, by the share `upper` of a gap.
struct PlaceInSupport {
  double below, upper;
};

// How row n moves the support: return i lies at place offset + discount * i, counted in gaps from
// the lowest atom. In double precision, and with the gap from both ends: a rounded gap of two
// neighbours, times the number of atoms, would move returns at the upper end off their atoms.
struct MovedSupport {
  double offset, discount, top;
};
SHOAL_HOST_DEVICE inline MovedSupport moved_support(const Projection& in, std::int64_t n) {
  const double low = in.support[0], high = in.support[in.atoms - 1];
  const auto top = static_cast<double>(in.atoms - 1);
  const double reward = in.reward[n], discount = in.discount[n];
  return {(reward + (discount - 1) * low) * top / (high - low), discount, top};
}

// NaN lies above the last atom but one, by NaN.
SHOAL_HOST_DEVICE inline PlaceInSupport place_in_support(const MovedSupport& moved,
                                                         std::int64_t i) {
  double place = moved.offset + moved.discount * static_cast<double>(i);
  place = place < 0 ? 0 : place > moved.top ? moved.top : place;
  // The highest return is the whole gap above the last atom but one.
  const double below = place < moved.top ? std::floor(place) : moved.top - 1;
  return {below, place - below};
}

// The categorical projection (Bellemare et al., arXiv 1707.06887, algorithm 1) as project() defines
// it, of row n and atom j. It gathers what falls to the atom, in the order in which project()
// scatters it: what lies above the atom, then what lies below. So nothing depends on the order of
// threads.
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
