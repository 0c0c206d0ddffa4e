#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>

#include <utility>
#include <vector>

#include "samplers/mailbox.h"
#include "samplers/partition.h"
#include "samplers/samplers.h"
#include "samplers/saved_state.h"
#include "samplers/window.h"
#include "shoal/core/parameter_board.h"
#include "shoal/core/step_barrier.h"
#include "shoal/data/flat.h"

namespace shoal {

namespace {

// Every worker acts for its own environments, with parameters of its own, for a whole window; the
// agent process values what has come of it.
class ParallelCpuSampler : public Sampler {
 public:
  ParallelCpuSampler(const Making& making, Agent& agent)
      : agent_(agent),
        options_(making.options),
        flat_(bytes_of(agent.acting_parameters())),
        shared_(plan_, making.spec, agent.spec(),
                {.horizon = options_.horizon,
                 .envs = options_.envs,
                 .collectors = options_.groups * options_.workers,
                 .ends_wait = true,
                 .may_wait = may_wait(options_)}),
        barrier_memory_(plan_.add_bytes(StepBarrier::bytes(options_.workers))),
        board_memory_(plan_.add_bytes(ParameterBoard::bytes(flat_.size()))),
        log_(plan_, making.spec, options_, options_.action_log_bytes),
        arena_(plan_),
        barrier_(arena_.data(barrier_memory_), options_.workers,
                 default_spin(options_.workers + 1)),
        board_(arena_.data(board_memory_), flat_.size()),
        mailbox_(options_.groups * options_.workers),
        tick_(making.first_tick) {
    shared_.attach(arena_);
    log_.attach(arena_, making.first_tick);
    reporter_.prepare(options_, {{&log_, &shared_, {&shared_}}});
    auto own = making;
    own.reporter = &reporter_;
    if (!making.saved.empty()) {
      restore_rows(shared_, making.saved);
      log_.keep_states(making.saved);
    }
    const auto body = [&](int worker, WorkerStatus status) { work(worker, status, making); };
    reporter_.watch([&] {
      group_ = std::make_unique<WorkerGroup>(options_.workers, body, worker_options(own));
      await();
    });
    group_->allow_restarts();
    window_ =
        std::make_unique<Window>(shared_, agent, options_, std::vector<Range>{{0, options_.envs}});
    if (!making.saved.empty()) window_->restore(making.saved);
    for (const auto& [name, field] : shared_.final_state)
      final_state_.add(name, view(arena_, field));
  }

  Batch collect() override {
    return reporter_.watch([this] { return collect_window(); });
  }

  const SamplerTimes& times() const override { return times_; }

  NamedTensors save(bool reset_others) override {
    return reporter_.watch([&] {
      NamedTensors saved;
      if (std::exchange(waits_, true)) {
        window_->save_given_up(options_.first_env, saved);
        return saved;
      }
      await();
      save_environments(saving(reset_others), saved);
      window_->save(saved);
      waits_ = false;
      return saved;
    });
  }

 private:
  Batch collect_window() {
    at::NoGradGuard no_grad;
    auto before = std::chrono::steady_clock::now();
    waits_ = true;
    await();  // the environments are there, and what waited is reset
    log_.save_if_due(
        [this](NamedTensors& states) { save_environments(SharedRows::kSaveForLog, states); });
    before = count_time(times_.waiting, before);
    window_->begin();
    log_.begin(0);
    flatten(agent_.acting_parameters(), flat_);
    board_.publish(flat_);
    release(0);
    await();
    log_.end(shared_);
    before = count_time(times_.waiting, before);
    window_->finish_others(final_state_);
    count_time(times_.acting, before);
    if (shared_.may_wait) release(options_.horizon);
    times_.uploaded_bytes = window_->uploaded_bytes();
    waits_ = false;
    return window_->batch();
  }

  void save_environments(SharedRows::Saving how, NamedTensors& to) {
    window_->advance();
    release(how);
    await();
    take_env_states(mailbox_, options_, to);
  }
  // Has the workers fill a window from step 0 on, reset what waits, or save.
  void release(std::int64_t order) {
    shared_.order(0) = {order, 0, tick_};
    if (order == 0) tick_ += options_.horizon;
    barrier_.release();
  }

  // In the child; never returns. `agent_` is the copy that the fork has made.
  void work(int worker, WorkerStatus status, const Making& making) {
    at::set_num_threads(1);
    at::NoGradGuard no_grad;
    const auto& o = options_;
    std::vector<Range> parts;
    std::vector<std::unique_ptr<Collector>> collectors;
    std::vector<int> slots;  // of the mailbox
    auto own = making;
    own.lost = status.past_lives() > 0;
    if (own.lost) own.first_tick = shared_.order(0).tick;
    for (int g = 0; g < o.groups; ++g) {
      auto collector = make_collector(shared_, own, g, o.workers, worker, &status);
      if (!collector) continue;
      collectors.push_back(std::move(collector));
      parts.push_back(worker_range(o.envs, o.groups, g, o.workers, worker));
      slots.push_back(g * o.workers + worker);
    }
    RowActor actor(shared_, agent_, o, parts);
    std::uint64_t version = 0;
    for (bool arrives = !own.lost;; arrives = true) {
      if (arrives) barrier_.arrive(worker);
      while (!barrier_.wait_release(worker, kPatience)) {
      }
      const auto order = shared_.order(0).step;
      if (order < 0) {
        for (std::size_t part = 0; part < parts.size(); ++part)
          mailbox_.put(slots[part], collectors[part]->save(SharedRows::Saving{order}));
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
  SharedRows shared_;
  Arena::Field barrier_memory_, board_memory_;
  ActionLog log_;
  Arena arena_;
  FailureReporter reporter_;
  StepBarrier barrier_;
  ParameterBoard board_;
  Mailbox mailbox_;
  std::int64_t tick_;  // of the next window
  std::unique_ptr<WorkerGroup> group_;
  std::unique_ptr<Window> window_;
  NamedTensors final_state_;  // [T, B, ...]
  bool waits_ = false;        // stays true where a wait was given up
  SamplerTimes times_;
};

}  // namespace

std::unique_ptr<Sampler> make_parallel_cpu_sampler(const Making& making, Agent& agent) {
  return std::make_unique<ParallelCpuSampler>(making, agent);
}

}  // namespace shoal
