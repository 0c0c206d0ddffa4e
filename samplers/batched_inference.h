#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "samplers/rollout_tensors.h"
#include "shoal/agents/agent.h"
#include "shoal/samplers/sampler.h"
#include "src/compute/captured_graph.h"

namespace shoal {

// Acts for the environments of a rollout in one process: for one part of them at a time, or for
// several parts in one batch. The tensors of all steps are made once.
class BatchedInference {
 public:
  struct Options {
    // Index of the rollout's first environment among all of the sampler.
    std::int64_t first_env = 0;
    // Other processes or threads read the results, so all of them are copied back to the host.
    bool host_reads = false;
  };
  // Both tensors and agent must outlive it.
  BatchedInference(RolloutTensors& tensors, Agent& agent, const SamplerOptions& sampler,
                   std::vector<Range> parts, const Options& options);
  ~BatchedInference();  // waits for the device

  // To be called before the first step of a rollout. tick: number of steps that every environment
  // has taken before it. device_has_first_row: the device already holds row 0 and the reward before
  // it.
  void begin(std::int64_t tick, bool device_has_first_row = false);

  // Chooses the actions of row t for a part whose observations of that row are complete. On a
  // device, the rows of a part must be acted on in order.
  void act(std::int64_t t, std::size_t part);
  // The same for several parts, each at its own row, in one batch.
  struct Place {
    std::int64_t t;
    std::size_t part;
  };
  void act(std::span<const Place> places);
  // The agent's input of row t. Valid until the same row is prepared again.
  ActIn& prepare(std::int64_t t, std::size_t part);

  bool greedy() const { return greedy_; }
  const std::vector<Range>& parts() const { return parts_; }
  RolloutTensors& tensors() { return tensors_; }

 private:
  struct Step {
    ActIn in;
    ActOut out;
    CapturedGraph captured = {};
    std::int64_t bytes = 0;  // uploaded to the device in this step
  };
  void make_steps();
  void act_on_device(std::int64_t t, std::size_t part);
  void upload_inputs(std::int64_t t, std::size_t part);
  void download(std::int64_t t, std::size_t part);
  void blank_waiting(std::int64_t t, std::size_t part);
  Step make_step(std::int64_t t, std::size_t part) const;
  Step& step(std::int64_t t, std::size_t part) {
    return steps_[static_cast<std::size_t>(t) * parts_.size() + part];
  }

  RolloutTensors& tensors_;
  const SharedRollout& shared_;
  Agent& agent_;
  std::uint64_t noise_seed_;
  bool greedy_;
  std::int64_t first_env_;
  bool host_reads_;
  std::vector<Range> parts_;
  std::vector<Step> steps_;  // [T][parts]
  at::Device made_for_;      // the device of their tensors
  std::int64_t first_tick_ = 0;
  bool device_has_first_row_ = false;
  TensorAddresses parameters_;             // of the agent; captured graphs read them
  std::vector<at::Tensor> keys_;           // NoiseKey::env_tick of each part, at the next step
  std::vector<NoiseKey::Row> noise_rows_;  // of a batch of several parts
};

}  // namespace shoal
