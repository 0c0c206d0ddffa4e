#include "samplers/free_running_workers.h"

#include <ATen/Parallel.h>

#include <algorithm>

#include "samplers/saved_state.h"
#include "shoal/core/stop.h"
#include "shoal/ipc/step_barrier.h"

namespace shoal {

FreeRunningWorkers::FreeRunningWorkers(const SharedRollouts& rollouts,
                                       const SamplerContext& context, std::byte* gate)
    : rollouts_(rollouts),
      options_(context.options),
      gate_(gate, {.clients = options_.workers, .spin = default_spin(options_.workers + 1)}),
      mailbox_(options_.workers),
      ticks_(static_cast<std::size_t>(options_.workers), context.first_tick) {
  const auto& o = options_;
  for (int w = 0; w < o.workers; ++w) {
    envs_.push_back(worker_range(o.envs, 1, 0, o.workers, w));
    order(w).due = true;  // until its first observations are written
  }
  const auto body = [&](int worker, WorkerStatus status) { work(worker, status, context); };
  auto options = worker_options(context);
  options.before_restart = [this, tell = options.before_restart](int worker,
                                                                 const WorkerError& death) {
    tell(worker, death);
    if (order(worker).due) gate_.forget(worker);
  };
  group_ = std::make_unique<WorkerGroup>(o.workers, body, options);
  under_way_ = o.workers;
  while (under_way_ > 0) gather(under_way_, BatchGate::kNoLimit);
  group_->allow_restarts();
}

void FreeRunningWorkers::start(Command command, std::int64_t t, int worker, std::size_t rollout) {
  auto& tick = ticks_[static_cast<std::size_t>(worker)];
  order(worker) = {command, t, static_cast<std::int64_t>(rollout), tick, true};
  if (command == Command::kStep) ++tick;
  starting_.push_back(worker);
}

void FreeRunningWorkers::end_rollout() {
  std::ranges::fill(ticks_, *std::ranges::max_element(ticks_));
}

void FreeRunningWorkers::go() {
  under_way_ += static_cast<int>(starting_.size());
  gate_.finish(starting_);
  starting_.clear();
}

std::span<const int> FreeRunningWorkers::gather(int workers, std::chrono::microseconds patience) {
  for (;;) {
    look_for_deaths();  // before gather(): a restart must not forget() a gathered worker
    const auto found = gate_.gather(std::min(workers, under_way_), patience, kPatience);
    if (found.empty()) continue;
    arrived_.assign(found.begin(), found.end());
    for (const int w : arrived_) order(w).due = false;
    under_way_ -= static_cast<int>(arrived_.size());
    gate_.keep();
    return arrived_;
  }
}

// Called at regular intervals, even if other workers keep arriving.
void FreeRunningWorkers::look_for_deaths() {
  const auto now = std::chrono::steady_clock::now();
  if (now - looked_ < kPatience) return;
  looked_ = now;
  if (given_up_) throw Interrupted(stop_requested());
  throw_if_interrupted();
  group_->check([this](int worker) { return order(worker).due; });
}

void FreeRunningWorkers::save(Command how, NamedTensors& to) {
  for (int w = 0; w < options_.workers; ++w) start(how, 0, w, 0);
  go();
  while (under_way_ > 0) gather(under_way_, BatchGate::kNoLimit);
  take_env_states(mailbox_, options_, to);
}

// In the child; never returns.
void FreeRunningWorkers::work(int worker, WorkerStatus status, const SamplerContext& context) {
  at::set_num_threads(1);
  auto own = context;
  own.lost = status.past_lives() > 0;
  if (own.lost) own.first_tick = order(worker).tick;
  const auto collector = make_collector(*rollouts_[0], own, 0, options_.workers, worker, &status);
  // If an order of the previous process was pending, it is carried out again, whether that process
  // had finished it or not. The step is invalid. An order that is written but not given yet, while
  // the gate keeps the last request, is waited for.
  bool again = own.lost && order(worker).due && !gate_.keeps(worker);
  auto ticket = own.lost ? gate_.newest(worker) : gate_.submit(worker);
  for (;; again = false) {
    while (!again && !gate_.wait(ticket, kPatience)) {
    }
    carry_out(order(worker), *collector, rollouts_, mailbox_, worker);
    ticket = gate_.submit(worker);
  }
}

}  // namespace shoal
