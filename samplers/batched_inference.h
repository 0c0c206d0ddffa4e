#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "samplers/rollout_tensors.h"
#include "shoal/agents/agent.h"
#include "shoal/samplers/sampler.h"
#include "src/compute/captured_graph.h"

namespace shoal {

// Acts in the shared rows, in one process, for some environments: a part of them at a time. The
// tensors of all steps are made once.
class BatchedInference {
 public:
  // rows_begin: what the first of the rows' environments is among all of the sampler. host_reads:
  // all that acting leaves goes back to the host, for others to read; and others use the device.
  BatchedInference(const SharedRollout& shared, Agent& agent, const SamplerOptions& options,
                   std::vector<Range> parts, std::int64_t rows_begin = 0, bool host_reads = false);
  ~BatchedInference();  // waits for the device

  // Once the agent has moved to another device, goes there, too: true if so. The other functions
  // must be called with the agent where it was.
  bool follow_agent();
  // tick: steps that every environment had taken before the rollout. A device may have row 0, and
  // the reward before it, already.
  void begin(std::int64_t tick, bool device_has_first_row = false);

  // Chooses the actions of row t for a part, whose observations there are complete, and which
  // nobody else touches. On a device, of one row after the other.
  void act(std::int64_t t, std::size_t part);
  // Likewise of several parts, each at a row of its own, as one batch.
  struct Place {
    std::int64_t t;
    std::size_t part;
  };
  void act(std::span<const Place> places);
  // Ends the rollout of a part after t steps (SharedRollout::cut_short()).
  void cut_short(std::int64_t t, std::size_t part);
  // What the agent is told of row t. Valid until the same row is prepared again.
  ActIn& prepare(std::int64_t t, std::size_t part);
  // Zeros in those of n tensors [n, ...] whose environments wait in row t.
  void blank_waiting(std::int64_t t, const Range& envs, const NamedTensors& tensors) const;

  bool greedy() const { return greedy_; }
  const std::vector<Range>& parts() const { return parts_; }
  const RolloutTensors& tensors() const { return tensors_; }
  RolloutTensors& tensors() { return tensors_; }

 private:
  struct Step {
    ActIn in;
    ActOut out;
    CapturedGraph recorded = {};
    std::int64_t bytes = 0;  // that go to the device for it
  };
  void make_steps();
  void act_on_device(std::int64_t t, std::size_t part);
  void upload(std::int64_t t, std::size_t part);
  void download(std::int64_t t, std::size_t part);
  void blank_waiting(std::int64_t t, std::size_t part);
  Step make_step(std::int64_t t, const Range& envs) const;
  Step& step(std::int64_t t, std::size_t part) {
    return steps_[static_cast<std::size_t>(t) * parts_.size() + part];
  }

  const SharedRollout& shared_;
  Agent& agent_;
  std::uint64_t noise_seed_;
  bool greedy_;
  std::int64_t rows_begin_;
  bool host_reads_;
  std::vector<Range> parts_;
  RolloutTensors tensors_;
  std::vector<Step> steps_;  // [T+1][parts]; the last ones are only asked for their values
  std::int64_t first_tick_ = 0;
  bool device_has_first_row_ = false;
  TensorAddresses parameters_;             // of the agent's, which recordings read
  std::vector<at::Tensor> keys_;           // NoiseKey::env_tick of each part, at the next step
  std::vector<NoiseKey::Row> noise_rows_;  // of the batch of several parts
};

}  // namespace shoal
