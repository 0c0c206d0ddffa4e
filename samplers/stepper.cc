#include "samplers/stepper.h"

#include <atomic>

#include "samplers/mailbox.h"
#include "samplers/partition.h"
#include "samplers/saved_state.h"
#include "shoal/core/stop.h"
#include "shoal/ipc/step_barrier.h"

namespace shoal {

namespace {

class SerialStepper : public Stepper {
 public:
  SerialStepper(const Rollouts& rollouts, const SamplerContext& context, WorkerStatus* status)
      : rollouts_(rollouts), options_(context.options) {
    const BlockingCall call(BlockingCall::kEnvironment);
    for (int g = 0; g < options_.groups; ++g)
      collectors_.push_back(make_collector(*rollouts[0], context, g, 1, 0, status));
    due_.resize(collectors_.size());
  }
  void start(std::int64_t t, int group, std::size_t rows) override {
    collectors_[static_cast<std::size_t>(group)]->go_to(*rollouts_[rows]);
    due_[static_cast<std::size_t>(group)] = t;
  }
  void finish(int group) override {
    const auto g = static_cast<std::size_t>(group);
    throw_if_interrupted();
    const BlockingCall call(BlockingCall::kEnvironment);
    collectors_[g]->step(due_[g]);
  }
  void save(SharedRollout::Saving how, NamedTensors& to) override {
    const BlockingCall call(BlockingCall::kEnvironment);
    for (int g = 0; g < options_.groups; ++g)
      add_env_states(collectors_[static_cast<std::size_t>(g)]->save(how),
                     group_range(options_.envs, options_.groups, g), options_.first_env, to);
  }

 private:
  Rollouts rollouts_;
  SamplerOptions options_;
  std::vector<std::int64_t> due_;  // steps that the groups are to take
  std::vector<std::unique_ptr<Collector>> collectors_;
};

class ParallelStepper : public Stepper {
 public:
  ParallelStepper(const Rollouts& rollouts, const SamplerContext& context,
                  const std::vector<std::byte*>& barriers)
      : rollouts_(rollouts),
        options_(context.options),
        mailbox_(options_.groups * options_.workers) {
    const auto& o = options_;
    for (int g = 0; g < o.groups; ++g) {
      auto& group = groups_.emplace_back(StepBarrier(barriers[static_cast<std::size_t>(g)],
                                                     o.workers, default_spin(o.workers + 1)),
                                         context.first_tick);
      for (int w = 0; w < o.workers; ++w)
        if (!worker_range(o.envs, o.groups, g, o.workers, w).empty()) group.workers.push_back(w);
    }
    const auto body = [&](int worker, WorkerStatus status) { work(worker, status, context); };
    workers_ = std::make_unique<WorkerGroup>(o.workers, body, worker_options(context));
    for (int g = 0; g < o.groups; ++g) finish(g);
    workers_->allow_restarts();
  }

  void start(std::int64_t t, int group, std::size_t rows) override {
    auto& [barrier, workers, tick] = groups_[static_cast<std::size_t>(group)];
    rollouts_[0]->order(group) = {t, static_cast<std::int64_t>(rows), tick};
    if (t >= 0 && t < options_.horizon) ++tick;
    barrier.release();
  }
  void finish(int group) override {
    auto& [barrier, workers, tick] = groups_[static_cast<std::size_t>(group)];
    throw_if_interrupted();  // short steps of a long rollout are waits, too
    for (const int w : workers) {
      while (!barrier.wait(w, kPatience)) {
        if (given_up_) throw Interrupted(stop_requested());
        workers_->check(w);
      }
    }
  }
  void give_up() override { given_up_ = true; }
  void save(SharedRollout::Saving how, NamedTensors& to) override {
    for (int g = 0; g < options_.groups; ++g) start(how, g, 0);
    for (int g = 0; g < options_.groups; ++g) finish(g);
    take_env_states(mailbox_, options_, to);
  }
  std::int64_t restarts() const override { return workers_->restarts(); }

 private:
  struct Group {
    Group(StepBarrier b, std::int64_t first_tick) : barrier(b), tick(first_tick) {}
    StepBarrier barrier;
    std::vector<int> workers;  // that have environments of it
    std::int64_t tick;         // of the next step
  };

  // In the child; never returns.
  void work(int worker, WorkerStatus status, const SamplerContext& context) {
    const bool again = status.past_lives() > 0;
    std::vector<std::unique_ptr<Collector>> collectors;
    for (int g = 0; g < options_.groups; ++g) {
      auto own = context;
      own.lost = again;
      if (again) own.first_tick = rollouts_[0]->order(g).tick;
      collectors.push_back(
          make_collector(*rollouts_[0], own, g, options_.workers, worker, &status));
    }
    for (std::size_t g = 0; g < groups_.size() && !again; ++g)
      if (collectors[g]) groups_[g].barrier.arrive(worker);
    for (std::size_t g = again ? next_group(worker) : 0;; g = (g + 1) % groups_.size()) {
      if (!collectors[g]) continue;
      while (!groups_[g].barrier.wait_release(worker, kPatience)) {
      }
      const auto group = static_cast<int>(g);
      const auto order = rollouts_[0]->order(group);
      collectors[g]->go_to(*rollouts_[static_cast<std::size_t>(order.rows)]);
      collectors[g]->count_from(order.tick);
      if (order.step < 0)
        mailbox_.put(group * options_.workers + worker,
                     collectors[g]->save(SharedRollout::Saving{order.step}));
      else
        collectors[g]->step(order.step);
      groups_[g].barrier.arrive(worker);
    }
  }

  // Groups come by turns: the one whose step the worker before has left undone, or else the one
  // that is behind.
  std::size_t next_group(int worker) const {
    const auto done = [&](std::size_t g) {
      return rollouts_[0]->order(static_cast<int>(g)).tick +
             (groups_[g].barrier.has_arrived(worker) ? 1 : 0);
    };
    std::size_t next = 0;
    for (std::size_t g = 1; g < groups_.size(); ++g)
      if (done(g) < done(next)) next = g;
    return next;
  }

  Rollouts rollouts_;
  SamplerOptions options_;
  Mailbox mailbox_;
  std::vector<Group> groups_;
  std::unique_ptr<WorkerGroup> workers_;
  std::atomic<bool> given_up_{false};
};

}  // namespace

std::unique_ptr<Stepper> make_serial_stepper(const Rollouts& rollouts,
                                             const SamplerContext& context, WorkerStatus* status) {
  return std::make_unique<SerialStepper>(rollouts, context, status);
}

std::unique_ptr<Stepper> make_parallel_stepper(const Rollouts& rollouts,
                                               const SamplerContext& context,
                                               const std::vector<std::byte*>& barriers) {
  return std::make_unique<ParallelStepper>(rollouts, context, barriers);
}

}  // namespace shoal
