#include "algos/replay_learning.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <span>

namespace shoal {

void check_shares(const std::string& algo, std::int64_t batch, const ProcessGroup& ranks,
                  const StepReplay& replay) {
  const auto slices = static_cast<std::int64_t>(ranks.count()) * replay.slices();
  require(batch % slices == 0,
          "{}.batch: found {}, expected a multiple of {} ranks with {} slices each", algo, batch,
          ranks.count(), replay.slices());
  require(replay.is_shared() || replay.first_slice() == ranks.rank() * replay.slices(),
          "first slice of rank {}'s replay: found {}; with {} slices in each rank, expected {}",
          ranks.rank(), replay.first_slice(), replay.slices(), ranks.rank() * replay.slices());
}

namespace {

// Divides the weights by the largest weight of all ranks instead of this rank's.
template <class Drawn>
void weigh_together(ProcessGroup& ranks, const Drawn& own, double beta) {
  double least = own.least_probability;
  for (const auto& bytes : ranks.gather(std::as_bytes(std::span(&own.least_probability, 1)))) {
    double other = 0;
    std::memcpy(&other, bytes.data(), sizeof other);
    least = std::min(least, other);
  }
  own.weight.mul_(std::pow(least / own.least_probability, beta));
}

template <class Drawn, class AnyReplay>
const Drawn& draw_together(ProcessGroup& ranks, AnyReplay& replay, std::int64_t batch,
                           double beta) {
  if (replay.is_shared()) return replay.sample(batch, beta);
  const auto& own = replay.sample(batch / ranks.count(), beta);
  if (ranks.count() > 1 && replay.prioritized()) weigh_together(ranks, own, beta);
  return own;
}

}  // namespace

const Transitions& sample_together(ProcessGroup& ranks, StepReplay& replay, std::int64_t batch,
                                   double beta) {
  return draw_together<Transitions>(ranks, replay, batch, beta);
}

const Sequences& sample_together(ProcessGroup& ranks, SequenceReplay& replay, std::int64_t batch,
                                 double beta) {
  return draw_together<Sequences>(ranks, replay, batch, beta);
}

}  // namespace shoal
