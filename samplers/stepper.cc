#include "samplers/stepper.h"

#include <ATen/Parallel.h>

#include <algorithm>

#include "samplers/saved_state.h"
#include "shoal/core/stop.h"

namespace shoal {

SerialStepper::SerialStepper(const SharedRollouts& rollouts, const SamplerContext& context,
                             WorkerStatus* status, int workers, int worker)
    : rollouts_(rollouts), first_env_(context.options.first_env), limit_(0) {
  const auto& o = context.options;
  if (status == nullptr) {
    constexpr std::chrono::hours kYear{24 * 365};
    limit_ = std::min<std::chrono::milliseconds>(o.envs * (o.reset_limit + o.step_limit), kYear);
    limits_.emplace();
  }
  const BlockingCall call(BlockingCall::kEnvironment, limit_);
  for (int g = 0; g < o.groups; ++g) {
    auto collector = make_collector(*rollouts[0], context, g, workers, worker, status);
    if (!collector) continue;
    collectors_.push_back(std::move(collector));
    parts_.push_back(worker_range(o.envs, o.groups, g, workers, worker));
    slots_.push_back(g * workers + worker);
  }
  due_.resize(collectors_.size());
}

void SerialStepper::start(Command command, std::int64_t t, std::size_t part, std::size_t rollout) {
  collectors_[part]->go_to(*rollouts_[rollout]);
  due_[part] = {command, t};
}

std::int64_t SerialStepper::finish(std::size_t part) {
  throw_if_interrupted();
  const BlockingCall call(BlockingCall::kEnvironment, limit_);
  return collectors_[part]->carry_out(due_[part].command, due_[part].t);
}

void SerialStepper::save(Command how, NamedTensors& to) {
  const BlockingCall call(BlockingCall::kEnvironment, limit_);
  for (std::size_t part = 0; part < parts_.size(); ++part)
    add_env_states(collectors_[part]->save(how), parts_[part], first_env_, to);
}

void SerialStepper::save(Command how, const Mailbox& mailbox) {
  for (std::size_t part = 0; part < parts_.size(); ++part)
    mailbox.put(slots_[part], collectors_[part]->save(how));
}

std::size_t ParallelStepper::bytes(const SamplerOptions& o) {
  return static_cast<std::size_t>(o.groups) * on_cache_lines(StepBarrier::bytes(o.workers));
}

ParallelStepper::ParallelStepper(const SharedRollouts& rollouts, const SamplerContext& context,
                                 std::byte* memory)
    : rollouts_(rollouts), options_(context.options), mailbox_(options_.groups * options_.workers) {
  const auto& o = options_;
  for (int g = 0; g < o.groups; ++g) {
    parts_.push_back(group_range(o.envs, o.groups, g));
    auto* own =
        memory + static_cast<std::size_t>(g) * on_cache_lines(StepBarrier::bytes(o.workers));
    auto& group = groups_.emplace_back(
        Group{StepBarrier(own, o.workers, default_spin(o.workers + 1)), context.first_tick, {}});
    for (int w = 0; w < o.workers; ++w)
      if (!worker_range(o.envs, o.groups, g, o.workers, w).empty()) group.workers.push_back(w);
  }
  const auto body = [&](int worker, WorkerStatus status) { work(worker, status, context); };
  workers_ = std::make_unique<WorkerGroup>(o.workers, body, worker_options(context));
  for (std::size_t g = 0; g < groups_.size(); ++g) finish(g);
  workers_->allow_restarts();
}

void ParallelStepper::start(Command command, std::int64_t t, std::size_t part,
                            std::size_t rollout) {
  auto& group = groups_[part];
  rollouts_[0]->order(static_cast<int>(part)) = {command, t, static_cast<std::int64_t>(rollout),
                                                 group.tick};
  if (command == Command::kStep) ++group.tick;
  group.barrier.release();
}

std::int64_t ParallelStepper::finish(std::size_t part) {
  auto& group = groups_[part];
  throw_if_interrupted();  // here, too: short steps of a long rollout never enter the loop below
  const auto order = rollouts_[0]->order(static_cast<int>(part));
  const auto& rollout = *rollouts_[static_cast<std::size_t>(order.rollout)];
  std::int64_t ended = 0;
  for (const int w : group.workers) {
    while (!group.barrier.wait(w, kPatience)) {
      if (given_up_) throw Interrupted(stop_requested());
      workers_->check(w);
    }
    ended += rollout.ended_in(static_cast<int>(part) * options_.workers + w);
  }
  return ended;
}

void ParallelStepper::save(Command how, NamedTensors& to) {
  for (std::size_t g = 0; g < groups_.size(); ++g) start(how, 0, g, 0);
  for (std::size_t g = 0; g < groups_.size(); ++g) finish(g);
  take_env_states(mailbox_, options_, to);
}

// In the child; never returns.
void ParallelStepper::work(int worker, WorkerStatus status, const SamplerContext& context) {
  at::set_num_threads(1);
  const bool again = status.past_lives() > 0;
  std::vector<std::unique_ptr<Collector>> collectors;
  for (int g = 0; g < options_.groups; ++g) {
    auto own = context;
    own.lost = again;
    if (again) own.first_tick = rollouts_[0]->order(g).tick;
    collectors.push_back(make_collector(*rollouts_[0], own, g, options_.workers, worker, &status));
  }
  for (std::size_t g = 0; g < groups_.size() && !again; ++g)
    if (collectors[g]) groups_[g].barrier.arrive(worker);
  for (std::size_t g = again ? next_group(worker) : 0;; g = (g + 1) % groups_.size()) {
    if (!collectors[g]) continue;
    while (!groups_[g].barrier.wait_release(worker, kPatience)) {
    }
    const auto group = static_cast<int>(g);
    carry_out(rollouts_[0]->order(group), *collectors[g], rollouts_, mailbox_,
              group * options_.workers + worker);
    groups_[g].barrier.arrive(worker);
  }
}

// Groups alternate. A new worker starts with the group whose step its predecessor left undone, or
// else with the one that is behind.
std::size_t ParallelStepper::next_group(int worker) const {
  const auto done = [&](std::size_t g) {
    return rollouts_[0]->order(static_cast<int>(g)).tick +
           (groups_[g].barrier.has_arrived(worker) ? 1 : 0);
  };
  std::size_t next = 0;
  for (std::size_t g = 1; g < groups_.size(); ++g)
    if (done(g) < done(next)) next = g;
  return next;
}

}  // namespace shoal
