#pragma once

#include <array>
#include <cstdint>
#include <memory>

#include "samplers/partition.h"
#include "samplers/shared_rollout.h"
#include "shoal/agents/agent.h"
#include "shoal/data/samples.h"

namespace shoal {

// The part of some environments, of a tensor [B, ...].
inline at::Tensor part_of(const at::Tensor& all, const Range& envs) {
  return all.narrow(0, envs.first, envs.size());
}

// Tensors of the shared rows in one process. A device other than the CPU has a copy of the rows:
// every row is uploaded once, for acting, and then serves as the training batch.
struct RolloutTensors {
  // All rows of one field, [rows, B, ...]. Environments write to `host`, the agent reads `device`.
  // On the CPU they are the same tensor.
  struct Mirror {
    at::Tensor host, device;
  };

  RolloutTensors(const SharedRollout& shared, at::Device device);

  // Computes the frame indices of the stacked observations of row t.
  // has_ends: `truncated` of this row is known, so that the row in which a worker died keeps its
  // frames.
  void stack_frames(std::int64_t t, const Range& envs, bool has_ends = false);
  // Views of the agent's inputs of row t, without the noise.
  ActIn inputs(std::int64_t t, const Range& envs) const;
  // Uploads the inputs of rows [t, t + n), for acting and learning, after stack_frames(); or their
  // frame indices alone, if the device already has the rows.
  void upload_inputs(std::int64_t t, std::int64_t n, const Range& envs);
  void upload_stacks(std::int64_t t, std::int64_t n, const Range& envs);
  // Zeroes the rows of these tensors, [n, ...] for n environments, where environments wait in row
  // t.
  void blank_waiting(std::int64_t t, const Range& envs, const NamedTensors& tensors) const;
  // Ends the rollout of some environments after t steps (SharedRollout::cut_short()).
  void cut_short(std::int64_t t, const Range& envs);

  // upload() and download() do nothing unless `mirrored`. Uploads rows [from, from + n), or some
  // environments of them or of one row. The host rows must not change until the device has read
  // them.
  void upload(const Mirror& m, std::int64_t from, std::int64_t n);
  void upload(const Mirror& m, std::int64_t from, std::int64_t n, const Range& envs);
  void upload(const Mirror& m, std::int64_t row, const Range& envs) { upload(m, row, 1, envs); }
  // Downloads some environments of one row, or of a tensor without rows, [B, ...]. Complete after
  // wait().
  void download(const Mirror& m, std::int64_t row, const Range& envs) const;
  void download(const Mirror& m, const Range& envs) const;
  // Provides the device with the rows before a rollout's first step, and with its first row: from
  // the host, or, if `carried`, from the last rows on the device.
  void enter(bool carried);
  // Waits until all copies are complete.
  void wait() const;

  const SharedRollout* shared;
  at::Device device;
  bool mirrored;               // the device has a copy
  std::int64_t uploaded = 0;   // bytes so far
  std::shared_ptr<void> pins;  // pins the rows' memory; null: not pinned, downloads are synchronous
  Named<Mirror> observation, action, mask, env_info, agent_info;
  Mirror reward, terminated, truncated, is_first, valid;
  Named<Mirror> frame_index;  // of stacked fields only: [T+1, B, stack]
  // [B, ...], the agent's state before and after a step, alternating.
  std::array<Named<Mirror>, 2> state;

 private:
  void carry_over(const Mirror& m, std::int64_t from, std::int64_t n) const;
};

}  // namespace shoal
