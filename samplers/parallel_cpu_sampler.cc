#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>

#include <utility>
#include <vector>

#include "samplers/mailbox.h"
#include "samplers/partition.h"
#include "samplers/rollout.h"
#include "samplers/sampler_context.h"
#include "samplers/saved_state.h"
#include "shoal/data/flat.h"
#include "shoal/ipc/parameter_board.h"
#include "shoal/ipc/step_barrier.h"

namespace shoal {

namespace {

// Every worker acts for its own environments, with parameters of its own, for a whole rollout; the
// agent process values what has come of it.
class ParallelCpuSampler : public Sampler {
 public:
  ParallelCpuSampler(const SamplerContext& context, Agent& agent)
      : agent_(agent),
        options_(context.options),
        flat_(bytes_of(agent.acting_parameters())),
        shared_(plan_, context.spec, agent.spec(),
                {.horizon = options_.horizon,
                 .envs = options_.envs,
                 .collectors = options_.groups * options_.workers,
                 .ends_wait = true,
                 .may_wait = may_wait(options_)}),
        barrier_memory_(plan_.add_bytes(StepBarrier::bytes(options_.workers))),
        board_memory_(plan_.add_bytes(ParameterBoard::bytes(flat_.size()))),
        log_(plan_, context.spec, options_, options_.action_log_bytes),
        arena_(plan_),
        barrier_(arena_.data(barrier_memory_), options_.workers,
                 default_spin(options_.workers + 1)),
        board_(arena_.data(board_memory_), flat_.size()),
        mailbox_(options_.groups * options_.workers),
        tick_(context.first_tick) {
    shared_.attach(arena_);
    log_.attach(arena_, context.first_tick);
    reporter_.prepare(options_, {{&log_, &shared_, {&shared_}}});
    auto own = context;
    own.reporter = &reporter_;
    if (!context.saved.empty()) {
      restore_rows(shared_, context.saved);
      log_.keep_states(context.saved);
    }
    const auto body = [&](int worker, WorkerStatus status) { work(worker, status, context); };
    reporter_.watch([&] {
      group_ = std::make_unique<WorkerGroup>(options_.workers, body, worker_options(own));
      await();
    });
    group_->allow_restarts();
    rollout_ =
        std::make_unique<Rollout>(shared_, agent, options_, std::vector<Range>{{0, options_.envs}});
    if (!context.saved.empty()) rollout_->restore(context.saved);
    for (const auto& [name, field] : shared_.final_state)
      final_state_.add(name, view(arena_, field));
  }

  Batch collect() override {
    return reporter_.watch([this] { return collect_rollout(); });
  }

  const SamplerTimes& times() const override { return times_; }

  NamedTensors save(bool reset_others) override {
    return reporter_.watch([&] {
      NamedTensors saved;
      if (std::exchange(waits_, true)) {
        rollout_->save_given_up(options_.first_env, saved);
        return saved;
      }
      await();
      save_environments(saving(reset_others), saved);
      rollout_->save(saved);
      waits_ = false;
      return saved;
    });
  }

 private:
  Batch collect_rollout() {
    at::NoGradGuard no_grad;
    auto before = std::chrono::steady_clock::now();
    waits_ = true;
    await();  // the environments are there, and what waited is reset
    log_.save_if_due(
        [this](NamedTensors& states) { save_environments(SharedRollout::kSaveForLog, states); });
    before = count_time(times_.waiting, before);
    rollout_->begin();
    log_.begin(0);
    flatten(agent_.acting_parameters(), flat_);
    board_.publish(flat_);
    release(0);
    await();
    log_.end(shared_);
    before = count_time(times_.waiting, before);
    rollout_->finish_others(final_state_);
    count_time(times_.acting, before);
    if (shared_.may_wait) release(options_.horizon);
    times_.uploaded_bytes = rollout_->uploaded_bytes();
    waits_ = false;
    return rollout_->batch();
  }

  void save_environments(SharedRollout::Saving how, NamedTensors& to) {
    rollout_->advance();
    release(how);
    await();
    take_env_states(mailbox_, options_, to);
  }
  // Has the workers fill a rollout from step 0 on, reset what waits, or save.
  void release(std::int64_t order) {
    shared_.order(0) = {order, 0, tick_};
    if (order == 0) tick_ += options_.horizon;
    barrier_.release();
  }

  // In the child; never returns. `agent_` is the copy that the fork has made.
  void work(int worker, WorkerStatus status, const SamplerContext& context) {
    at::set_num_threads(1);
    at::NoGradGuard no_grad;
    const auto& o = options_;
    std::vector<Range> parts;
    std::vector<std::unique_ptr<Collector>> collectors;
    std::vector<int> slots;  // of the mailbox
    auto own = context;
    own.lost = status.past_lives() > 0;
    if (own.lost) own.first_tick = shared_.order(0).tick;
    for (int g = 0; g < o.groups; ++g) {
      auto collector = make_collector(shared_, own, g, o.workers, worker, &status);
      if (!collector) continue;
      collectors.push_back(std::move(collector));
      parts.push_back(worker_range(o.envs, o.groups, g, o.workers, worker));
      slots.push_back(g * o.workers + worker);
    }
    BatchedInference actor(shared_, agent_, o, parts);
    std::uint64_t version = 0;
    for (bool arrives = !own.lost;; arrives = true) {
      if (arrives) barrier_.arrive(worker);
      while (!barrier_.wait_release(worker, kPatience)) {
      }
      const auto order = shared_.order(0).step;
      if (order < 0) {
        for (std::size_t part = 0; part < parts.size(); ++part)
          mailbox_.put(slots[part], collectors[part]->save(SharedRollout::Saving{order}));
        continue;
      }
      if (order == o.horizon) {
        for (const auto& collector : collectors) collector->step(order);
        continue;
      }
      if (board_.read(flat_, version)) {
        unflatten(flat_, agent_.acting_parameters());
        agent_.parameters_changed();
      }
      actor.begin(shared_.order(0).tick);
      for (std::int64_t t = 0; t < o.horizon; ++t) {
        for (std::size_t part = 0; part < parts.size(); ++part) {
          actor.act(t, part);
          collectors[part]->step(t);
          shared_.keep_final_states(t, parts[part].first, parts[part].last);
        }
      }
    }
  }

  void await() {
    for (int w = 0; w < barrier_.workers(); ++w)
      while (!barrier_.wait(w, kPatience)) group_->check(w);
  }

  Agent& agent_;
  SamplerOptions options_;
  std::vector<std::byte> flat_;  // parameters on their way; every process has its own
  Arena::Plan plan_;
  SharedRollout shared_;
  Arena::Field barrier_memory_, board_memory_;
  ActionLog log_;
  Arena arena_;
  FailureReporter reporter_;
  StepBarrier barrier_;
  ParameterBoard board_;
  Mailbox mailbox_;
  std::int64_t tick_;  // of the next rollout
  std::unique_ptr<WorkerGroup> group_;
  std::unique_ptr<Rollout> rollout_;
  NamedTensors final_state_;  // [T, B, ...]
  bool waits_ = false;        // stays true where a wait was given up
  SamplerTimes times_;
};

}  // namespace

std::unique_ptr<Sampler> make_parallel_cpu_sampler(const SamplerContext& context, Agent& agent) {
  return std::make_unique<ParallelCpuSampler>(context, agent);
}

}  // namespace shoal
