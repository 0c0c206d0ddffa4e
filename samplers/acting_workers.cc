#include "samplers/acting_workers.h"

#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>

#include "samplers/lockstep.h"
#include "samplers/saved_state.h"
#include "shoal/data/flat.h"

namespace shoal {

std::size_t ActingWorkers::bytes(const SamplerOptions& o, Agent& agent) {
  return on_cache_lines(StepBarrier::bytes(o.workers)) +
         ParameterBoard::bytes(bytes_of(agent.acting_parameters()));
}

ActingWorkers::ActingWorkers(const SharedRollout& shared, const SamplerContext& context,
                             Agent& agent, std::byte* memory)
    : shared_(shared),
      agent_(agent),
      options_(context.options),
      parts_{{0, options_.envs}},
      flat_(bytes_of(agent.acting_parameters())),
      barrier_(memory, options_.workers, default_spin(options_.workers + 1)),
      board_(memory + on_cache_lines(StepBarrier::bytes(options_.workers)), flat_.size()),
      mailbox_(options_.groups * options_.workers),
      tick_(context.first_tick) {
  const auto body = [&](int worker, WorkerStatus status) { work(worker, status, context); };
  group_ = std::make_unique<WorkerGroup>(options_.workers, body, worker_options(context));
  await();
  group_->allow_restarts();
}

bool ActingWorkers::fill(const Task& task) {
  SplitTimer timer(task.times);
  flatten(agent_.acting_parameters(), flat_);
  board_.publish(flat_);
  release(Command::kFill);
  await();
  timer.count(&SamplerTimes::waiting);
  return true;
}

void ActingWorkers::start_resets(std::size_t) { release(Command::kReset); }

void ActingWorkers::save(Command how, NamedTensors& to) {
  release(how);
  await();
  take_env_states(mailbox_, options_, to);
}

void ActingWorkers::release(Command command) {
  shared_.order(0) = {command, 0, 0, tick_};
  if (command == Command::kFill) tick_ += options_.horizon;
  barrier_.release();
}

void ActingWorkers::await() {
  for (int w = 0; w < barrier_.workers(); ++w)
    while (!barrier_.wait(w, kPatience)) group_->check(w);
}

// In the child; never returns.
void ActingWorkers::work(int worker, WorkerStatus status, const SamplerContext& context) {
  at::set_num_threads(1);
  const at::NoGradGuard no_grad;
  auto own = context;
  own.lost = status.past_lives() > 0;
  if (own.lost) own.first_tick = shared_.order(0).tick;
  auto stepper = std::make_unique<SerialStepper>(SharedRollouts{&shared_}, own, &status,
                                                 options_.workers, worker);
  auto& environments = *stepper;
  Lockstep filler(std::move(stepper), options_);
  RolloutTensors tensors(shared_, agent_.device());
  BatchedInference actor(tensors, agent_, options_, filler.parts(), {});
  std::uint64_t version = 0;
  for (bool arrives = !own.lost;; arrives = true) {
    if (arrives) barrier_.arrive(worker);
    while (!barrier_.wait_release(worker, kPatience)) {
    }
    const auto order = shared_.order(0);
    if (order.command == Command::kReset) {
      filler.start_resets(0);
      filler.finish_resets();
    } else if (order.command != Command::kFill) {
      environments.save(order.command, mailbox_);
    } else {
      if (board_.read(flat_, version)) {
        unflatten(flat_, agent_.acting_parameters());
        agent_.parameters_changed();
      }
      actor.begin(order.tick);
      const auto ended = [this](std::int64_t t, const Range& envs) {
        shared_.keep_final_states(t, envs.first, envs.last);
      };
      filler.fill({.rollout = 0, .actor = &actor, .ended = ended});
    }
  }
}

}  // namespace shoal
