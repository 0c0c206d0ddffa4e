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
  float below, upper;
};

SHOAL_HOST_DEVICE inline PlaceInSupport place_in_support(const Projection& in, std::int64_t n,
                                                         std::int64_t i) {
  const float low = in.support[0], gap = in.support[1] - low;
  const auto top = static_cast<float>(in.atoms - 1);
  float place = (in.reward[n] + in.discount[n] * in.support[i] - low) / gap;
  place = place < 0 ? 0 : place > top ? top : place;
  // The highest return is the whole gap above the last atom but one.
  const float below = place < top ? std::floor(place) : top - 1;
  return {below, place - below};
}

// The categorical projection (Bellemare et al., arXiv 1707.06887, algorithm 1) as project() defines
// it, of row n and atom j. It gathers what falls to the atom, in the order in which project()
// scatters it: what lies above the atom, then what lies below. So nothing depends on the order of
// threads.
SHOAL_HOST_DEVICE inline void project_atom(const Projection& in, std::int64_t n, std::int64_t j) {
  const float* probability = in.probability + n * in.atoms;
  const auto atom = static_cast<float>(j);
  float sum = 0;
  for (std::int64_t i = 0; i < in.atoms; ++i) {
    const auto [below, upper] = place_in_support(in, n, i);
    if (below == atom) sum += probability[i] * (1 - upper);
  }
  for (std::int64_t i = 0; i < in.atoms; ++i) {
    const auto [below, upper] = place_in_support(in, n, i);
    if (below + 1 == atom) sum += probability[i] * upper;
  }
  in.out[n * in.atoms + j] = sum;
}

}  // namespace shoal
