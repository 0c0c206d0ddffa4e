#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "samplers/mailbox.h"
#include "samplers/partition.h"
#include "samplers/sampler_context.h"
#include "shoal/core/stop.h"
#include "shoal/ipc/step_barrier.h"

namespace shoal {

// Lets one part of the environments (a group) carry out a command. Call start() once the actions of
// the step are written. The results are available after finish().
class Stepper {
 public:
  virtual ~Stepper() = default;
  virtual const std::vector<Range>& parts() const = 0;
  // t: for kStep and kBegin. rollout: index among the rollouts that the stepper was made with.
  virtual void start(Command command, std::int64_t t, std::size_t part, std::size_t rollout) = 0;
  // Returns the number of episodes that ended in a step. Throws WorkerError if a worker fails, and
  // Interrupted.
  virtual std::int64_t finish(std::size_t part) = 0;
  // May be called from another thread: a finish() that waits for workers soon throws Interrupted.
  virtual void give_up() {}
  virtual void save(Command how, NamedTensors& to) = 0;
  virtual std::int64_t restarts() const { return 0; }  // of workers so far; any thread may call it
};

// Steps the environments of worker `worker` of `workers` in this process; by default all of them.
// `status`: of this process, if it is a worker.
class SerialStepper : public Stepper {
 public:
  SerialStepper(const SharedRollouts& rollouts, const SamplerContext& context,
                WorkerStatus* status = nullptr, int workers = 1, int worker = 0);

  const std::vector<Range>& parts() const override { return parts_; }
  void start(Command command, std::int64_t t, std::size_t part, std::size_t rollout) override;
  std::int64_t finish(std::size_t part) override;
  void save(Command how, NamedTensors& to) override;
  // Saves each group to slot group * workers + worker.
  void save(Command how, const Mailbox& mailbox);

 private:
  struct Due {
    Command command;
    std::int64_t t;
  };
  SharedRollouts rollouts_;
  std::int64_t first_env_;
  // The limit of one call, in which every environment may be constructed or reset, and stepped. A
  // worker has no limit here: its parent enforces one.
  std::chrono::milliseconds limit_;
  std::optional<CallLimits> limits_;
  std::vector<Range> parts_;
  std::vector<int> slots_;  // of a mailbox
  std::vector<Due> due_;
  std::vector<std::unique_ptr<Collector>> collectors_;
};

// Steps in forked workers. A worker has environments of every group, if there are enough, and steps
// the groups alternately.
class ParallelStepper : public Stepper {
 public:
  static std::size_t bytes(const SamplerOptions& options);
  // memory: bytes() of the arena, 64-byte aligned.
  ParallelStepper(const SharedRollouts& rollouts, const SamplerContext& context, std::byte* memory);

  const std::vector<Range>& parts() const override { return parts_; }
  void start(Command command, std::int64_t t, std::size_t part, std::size_t rollout) override;
  std::int64_t finish(std::size_t part) override;
  void give_up() override { given_up_ = true; }
  void save(Command how, NamedTensors& to) override;
  std::int64_t restarts() const override { return workers_->restarts(); }

 private:
  struct Group {
    StepBarrier barrier;
    std::int64_t tick;         // of the next step
    std::vector<int> workers;  // that have environments of it
  };
  void work(int worker, WorkerStatus status, const SamplerContext& context);
  std::size_t next_group(int worker) const;

  SharedRollouts rollouts_;
  SamplerOptions options_;
  Mailbox mailbox_;
  std::vector<Range> parts_;
  std::vector<Group> groups_;
  std::unique_ptr<WorkerGroup> workers_;
  std::atomic<bool> given_up_{false};
};

}  // namespace shoal
