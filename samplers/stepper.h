#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "samplers/sampler_context.h"

namespace shoal {

// Makes the environments of a group take one step: start() once their actions are there, and what
// follows is there after finish(). If resets wait, step T resets what waits.
class Stepper {
 public:
  virtual ~Stepper() = default;
  // rows: which of those it was made with; a rollout's steps in the same ones.
  virtual void start(std::int64_t t, int group, std::size_t rows = 0) = 0;
  // Throws WorkerError if a worker fails, and Interrupted.
  virtual void finish(int group) = 0;
  // From another thread: a finish() that waits for workers ends soon, with Interrupted.
  virtual void give_up() {}
  virtual void save(SharedRollout::Saving how, NamedTensors& to) = 0;
  virtual std::int64_t restarts() const { return 0; }  // of workers so far; anybody may ask
};

// Where environments may be stepped. They write their first observations to the first row of the
// first rollout.
using Rollouts = std::vector<const SharedRollout*>;

// In this process. `status` may be null.
std::unique_ptr<Stepper> make_serial_stepper(const Rollouts& rollouts,
                                             const SamplerContext& context,
                                             WorkerStatus* status = nullptr);

// In forked workers. A worker has environments of every group, if there are enough, and steps the
// groups by turns. barriers: memory for the StepBarrier of each group.
std::unique_ptr<Stepper> make_parallel_stepper(const Rollouts& rollouts,
                                               const SamplerContext& context,
                                               const std::vector<std::byte*>& barriers);

}  // namespace shoal
