#pragma once

#include <array>
#include <cstdint>
#include <memory>

#include "samplers/partition.h"
#include "samplers/shared_rollout.h"
#include "shoal/agents/agent.h"
#include "shoal/data/samples.h"

namespace shoal {

// The shared rows as one process's tensors. On a device other than the CPU there is a copy of them:
// every row crosses once, for acting, and is then the training batch.
struct RolloutTensors {
  // All rows of one field, [rows, B, ...], where the environments write and where the agent reads.
  // On the CPU they are the same tensor.
  struct Mirror {
    at::Tensor host, device;
  };

  RolloutTensors(const SharedRollout& shared, at::Device device);

  // Finds which stored frames make the observations of row t of the rollout.
  void stack_frames(std::int64_t t, const Range& envs);
  // Views of what the agent is told of row t, without the noise.
  ActIn inputs(std::int64_t t, const Range& envs) const;
  // Copies what acting and learning need of row t to the device, once the row's observations are
  // there and stacked. stacks_only: the device has the row already.
  void upload_inputs(std::int64_t t, const Range& envs, bool stacks_only = false);
  // Zeros in the rows of n tensors [n, ...] whose environments wait in row t.
  void blank_waiting(std::int64_t t, const Range& envs, const NamedTensors& tensors) const;
  // Ends the rollout of some environments after t steps (SharedRollout::cut_short()).
  void cut_short(std::int64_t t, const Range& envs);

  // Nothing, unless there is a copy. Rows [from, from + n), or a part of them or of one row, to the
  // device; the host's must stay until it has read them.
  void upload(const Mirror& m, std::int64_t from, std::int64_t n);
  void upload(const Mirror& m, std::int64_t from, std::int64_t n, const Range& envs);
  void upload(const Mirror& m, std::int64_t row, const Range& envs) { upload(m, row, 1, envs); }
  // The host has it after wait(). A part of one row, or of what has no rows, [B, ...].
  void download(const Mirror& m, std::int64_t row, const Range& envs) const;
  void download(const Mirror& m, const Range& envs) const;
  // Brings the rows that precede a rollout's first step, and the one it begins with, to the device:
  // from the host, or, carried, from where the last rollout has left them there.
  void enter(bool carried);
  // Until the device has read and written all that was started.
  void wait() const;

  const SharedRollout* shared;
  at::Device device;
  bool mirrored;               // there is a copy
  std::int64_t uploaded = 0;   // bytes so far
  std::shared_ptr<void> pins;  // the rows' memory, as the device wants it; null: copies wait
  Named<Mirror> observation, action, mask, env_info, agent_info;
  Mirror reward, terminated, truncated, is_first, valid;
  Named<Mirror> frame_index;           // of stacked fields only: [T+1, B, stack]
  std::array<Named<Mirror>, 2> state;  // [B, ...], the agent's before and after a step, by turns

 private:
  void carry_over(const Mirror& m, std::int64_t from, std::int64_t n) const;
};

}  // namespace shoal
