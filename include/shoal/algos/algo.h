#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "shoal/data/samples.h"

namespace shoal {

// The progress of a run.
struct Progress {
  std::int64_t steps = 0;  // agent steps taken before this rollout, by all environments together
  std::int64_t schedule_steps = 1;  // steps after which schedules reach their final value

  // 1 for the first rollout, 0 for one that begins after `schedule_steps`.
  double remaining() const {
    const double done = static_cast<double>(steps) / static_cast<double>(schedule_steps);
    return done >= 1 ? 0 : 1 - done;
  }
};

// The metrics of an update, by name, in a fixed order.
using Metrics = std::vector<std::pair<std::string, double>>;

// Base of all algorithms.
class Algo {
 public:
  virtual ~Algo() = default;
  // State for checkpoints besides the agent's parameters, e.g. the optimizer's moments. The tensors
  // are the algorithm's own, not copies.
  virtual NamedTensors state() = 0;
};

// Learns from one rollout at a time. Returns metrics; never logs.
class OnPolicyAlgo : public Algo {
 public:
  virtual Metrics update(const Samples& samples, const Progress& progress) = 0;
};

}  // namespace shoal
