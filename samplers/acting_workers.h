#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "samplers/filler.h"
#include "samplers/mailbox.h"
#include "shoal/ipc/parameter_board.h"
#include "shoal/ipc/step_barrier.h"

namespace shoal {

// Each worker acts for its own environments for a whole rollout, with its own copy of the
// parameters.
class ActingWorkers : public Filler {
 public:
  static std::size_t bytes(const SamplerOptions& options, Agent& agent);
  // memory: bytes() of the arena, 64-byte aligned. The agent must outlive this object.
  ActingWorkers(const SharedRollout& shared, const SamplerContext& context, Agent& agent,
                std::byte* memory);

  const std::vector<Range>& parts() const override { return parts_; }
  bool fill(const Task& task) override;
  void start_resets(std::size_t rollout) override;
  void finish_resets() override { await(); }
  void save(Command how, NamedTensors& to) override;
  std::int64_t restarts() const override { return group_->restarts(); }

 private:
  void release(Command command);
  void await();
  void work(int worker, WorkerStatus status, const SamplerContext& context);

  const SharedRollout& shared_;
  Agent& agent_;  // in a worker: the copy made by the fork
  SamplerOptions options_;
  std::vector<Range> parts_;
  std::vector<std::byte> flat_;  // buffer for the parameters; each process has its own
  StepBarrier barrier_;
  ParameterBoard board_;
  Mailbox mailbox_;
  std::int64_t tick_;  // of the next rollout
  std::unique_ptr<WorkerGroup> group_;
};

}  // namespace shoal
