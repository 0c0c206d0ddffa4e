#pragma once

#include <array>
#include <cstdint>
#include <memory>

#include "samplers/partition.h"
#include "samplers/shared_rows.h"
#include "shoal/data/samples.h"

namespace shoal {

// The shared rows as one process's tensors. On a device other than the CPU there is a copy of them:
// every row crosses once, for acting, and is then the training batch.
struct RowTensors {
  // All rows of one field, [rows, B, ...], where the environments write and where the agent reads.
  // On the CPU they are the same tensor.
  struct Mirror {
    at::Tensor host, device;
  };

  RowTensors(const SharedRows& shared, at::Device device);

  // Finds which stored frames make the observations of row t of the window.
  void stack_frames(std::int64_t t, const Range& envs);

  // Nothing, unless there is a copy. Rows [from, from + n), or a part of one row, to the device;
  // the host's must stay until it has read them.
  void upload(const Mirror& m, std::int64_t from, std::int64_t n);
  void upload(const Mirror& m, std::int64_t row, const Range& envs);
  // The host has it after wait().
  void download(const Mirror& m, std::int64_t row, const Range& envs) const;
  // On the device: the first n rows become what those from `from` on are.
  void carry_over(const Mirror& m, std::int64_t from, std::int64_t n) const;
  // Until the device has read and written all that was started.
  void wait() const;

  const SharedRows* shared;
  at::Device device;
  bool mirrored;               // there is a copy
  std::int64_t uploaded = 0;   // bytes so far
  std::shared_ptr<void> pins;  // the rows' memory, as the device wants it; null: copies wait
  Named<Mirror> observation, action, mask, env_info, agent_info;
  Mirror reward, terminated, truncated, first, valid;
  Named<Mirror> frame_index;           // of stacked fields only: [T+1, B, stack]
  std::array<Named<Mirror>, 2> state;  // [B, ...], the agent's before and after a step, by turns
};

}  // namespace shoal
