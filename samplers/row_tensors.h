#pragma once

#include <array>
#include <cstdint>

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
    void copy_rows(std::int64_t from, std::int64_t n) const;
    void copy_part(std::int64_t row, const Range& envs) const;  // of one row
  };

  RowTensors(const SharedRows& shared, at::Device device);

  // Finds which stored frames make the observations of row t of the window.
  void stack_frames(std::int64_t t, const Range& envs);

  const SharedRows* shared;
  at::Device device;
  Named<Mirror> observation, action, mask, env_info, agent_info;
  Mirror reward, terminated, truncated, first, valid;
  Named<Mirror> frame_index;           // of stacked fields only: [T+1, B, stack]
  std::array<Named<Mirror>, 2> state;  // [B, ...], the agent's before and after a step, by turns
};

}  // namespace shoal
