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

// Forked workers that step their environments independently of each other: a worker that has taken
// its step arrives, and waits for its next order.
class FreeRunningWorkers {
 public:
  static std::size_t bytes(int workers) { return BatchGate::bytes(workers); }

  // As make_parallel_stepper(), of a single group; the rows of each rollout have an order for each
  // worker. gate: bytes(workers) of the arena.
  FreeRunningWorkers(const SharedRollouts& rollouts, const SamplerContext& context,
                     std::byte* gate);

  // Gives a resting worker an order, as Stepper::start() does. All workers that have an order begin
  // with go().
  void start(Command command, std::int64_t t, int worker, std::size_t rollout);
  void go();
  // A worker whose rollout was cut short counts the remaining steps, too.
  void end_rollout();
  // The workers that have taken their step: returns once `workers` of those under way have, or
  // `patience` after the first; at least one. They rest now. Throws WorkerError if a worker fails,
  // and Interrupted. The result is valid until the next call.
  std::span<const int> gather(int workers, std::chrono::microseconds patience);
  int under_way() const { return under_way_; }
  // From another thread: gather() throws Interrupted soon.
  void give_up() { given_up_ = true; }

  // All of them must rest.
  void save(Command how, NamedTensors& to);
  std::int64_t restarts() const { return group_->restarts(); }  // anybody may ask

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
  std::vector<std::int64_t> ticks_;  // of the next step of each
  std::vector<int> starting_, arrived_;
  int under_way_ = 0;
  std::atomic<bool> given_up_{false};
  std::chrono::steady_clock::time_point looked_ = std::chrono::steady_clock::now();
  std::unique_ptr<WorkerGroup> group_;
};

}  // namespace shoal
