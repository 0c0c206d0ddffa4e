#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "samplers/mailbox.h"
#include "samplers/partition.h"
#include "samplers/stepper.h"
#include "shoal/ipc/batch_gate.h"

namespace shoal {

// Forked workers that step their environments independently of each other. A worker that has taken
// its step arrives at the gate and waits for its next order.
class FreeRunningWorkers {
 public:
  static std::size_t bytes(int workers) { return BatchGate::bytes(workers); }

  // As ParallelStepper with a single group. The rows of the first rollout have an order for each
  // worker. gate: bytes(workers) of the arena.
  FreeRunningWorkers(const SharedRollouts& rollouts, const SamplerContext& context,
                     std::byte* gate);

  // Gives an idle worker an order, as Stepper::start() does. go() starts all workers with an order.
  void start(Command command, std::int64_t t, int worker, std::size_t rollout);
  void go();
  // Advances the ticks of all workers to the end of the rollout, also where it was cut short.
  void end_rollout();
  // The workers that have taken their step; they are idle now. Returns at least one: once `workers`
  // of the running ones have arrived, or `patience` after the first. Throws WorkerError if a worker
  // fails, and Interrupted. The result is valid until the next call.
  std::span<const int> gather(int workers, std::chrono::microseconds patience);
  int under_way() const { return under_way_; }
  // May be called from another thread: gather() soon throws Interrupted.
  void give_up() { given_up_ = true; }

  // All workers must be idle.
  void save(Command how, NamedTensors& to);
  std::int64_t restarts() const { return group_->restarts(); }  // any thread may call it

  // The environments of each worker.
  const std::vector<Range>& envs() const { return envs_; }

 private:
  void work(int worker, WorkerStatus status, const SamplerContext& context);
  void look_for_deaths();
  SharedRollout::Order& order(int worker) const { return rollouts_[0]->order(worker); }

  SharedRollouts rollouts_;
  SamplerOptions options_;
  BatchGate gate_;
  Mailbox mailbox_;
  std::vector<Range> envs_;
  std::vector<std::int64_t> ticks_;  // of the next step of each worker
  std::vector<int> starting_, arrived_;
  int under_way_ = 0;
  std::atomic<bool> given_up_{false};
  std::chrono::steady_clock::time_point looked_ = std::chrono::steady_clock::now();
  std::unique_ptr<WorkerGroup> group_;
};

}  // namespace shoal
