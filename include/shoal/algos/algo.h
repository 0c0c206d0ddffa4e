#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "shoal/data/samples.h"

namespace shoal {

// How far a run has come.
struct Progress {
  std::int64_t steps = 0;  // agent steps taken before this rollout, by all environments together
  std::int64_t schedule_steps = 1;  // steps over which schedules run to 0

  // 1 for the first rollout, 0 for one that begins after `schedule_steps`.
  double remaining() const {
    const double done = static_cast<double>(steps) / static_cast<double>(schedule_steps);
    return done >= 1 ? 0 : 1 - done;
  }
};

// Numbers an update reports, by name, in a fixed order.
using Metrics = std::vector<std::pair<std::string, double>>;

// What a run keeps of an algorithm.
class Algo {
 public:
  virtual ~Algo() = default;
  // What a checkpoint needs besides the agent's parameters (e.g. the optimizer's moments). The
  // tensors are the algo's own.
  virtual NamedTensors state() = 0;
};

// Learns from one rollout at a time, made by the policy it updates. Returns numbers; never logs.
class OnPolicyAlgo : public Algo {
 public:
  virtual Metrics update(const Samples& samples, const Progress& progress) = 0;
};

}  // namespace shoal
