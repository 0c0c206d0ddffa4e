#include "shoal/samplers/async_sampler.h"

#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/tensor.h>
#include <c10/core/DeviceGuard.h>

#include <algorithm>
#include <exception>
#include <thread>
#include <utility>
#include <vector>

#include "samplers/lockstep.h"
#include "samplers/partition.h"
#include "samplers/rollout.h"
#include "samplers/rollout_writer.h"
#include "samplers/sampler_context.h"
#include "samplers/saved_state.h"
#include "shoal/core/error.h"
#include "shoal/core/stop.h"
#include "shoal/data/saved.h"
#include "shoal/ipc/step_barrier.h"
#include "shoal/samplers/choose_sampler.h"
#include "src/compute/accelerator.h"

namespace shoal {

namespace {

using std::chrono::steady_clock;

// The number of writers, and the options of each.
struct Shape {
  int writers;
  SamplerOptions options;  // of one writer
  int slots;

  Shape(const SamplerOptions& all, const AsyncOptions& async)
      : writers(all.kind == SamplerKind::kParallelCpu ? all.workers : 1),
        options(all),
        slots(async.slots > 0 ? async.slots : writers + 2) {
    options.envs /= writers;
  }
  // Processes that step the environments of a writer.
  int steppers() const { return options.kind == SamplerKind::kParallelGpu ? options.workers : 1; }
  // With parallel-cpu, restarts need no waiting: the rollout of a dead writer is lost as a whole.
  bool may_wait(const BatchTraits& batch) const {
    return options.kind == SamplerKind::kParallelCpu ? batch.waits || !options.mid_batch_reset
                                                     : shoal::may_wait(options, batch);
  }
};

class RingSampler : public AsyncSampler {
 public:
  RingSampler(const SamplerContext& context, Agent& agent, Agent& actor, const AsyncOptions& async)
      : agent_(agent),
        actor_(actor),
        options_(context.options),
        async_(async),
        shape_(options_, async),
        parameters_(agent),
        rows_(plan_, context.spec, agent.spec(),
              {.rollout = {.horizon = options_.horizon,
                           .envs = shape_.options.envs,
                           .collectors = options_.groups * shape_.steppers(),
                           .groups = orders(shape_.options),
                           .ends_wait = true,
                           .may_wait = shape_.may_wait(context.batch)},
               .slots = shape_.slots,
               .writers = shape_.writers}),
        ring_memory_(plan_.add_bytes(TrajectoryRing::bytes(shape_.slots))),
        board_memory_(plan_.add_bytes(ParameterBoard::bytes(parameters_.bytes()))),
        start_memory_(plan_.add_bytes(StepBarrier::bytes(shape_.writers))),
        filler_memory_(plan_.add_bytes(workers_write() ? 0 : filler_bytes(options_, actor))),
        logs_(make_logs(context.spec)),
        arena_(plan_),
        ring_(arena_.data(ring_memory_), {.slots = shape_.slots,
                                          .max_lag = async.max_lag,
                                          .stale = async.stale,
                                          .drain = async.drain}),
        board_(arena_.data(board_memory_), parameters_.bytes()),
        start_(arena_.data(start_memory_), shape_.writers, /*spin=*/0),
        tick_(context.first_tick),
        episode_number_(static_cast<std::size_t>(options_.envs), 0) {
    rows_.attach(arena_);
    std::vector<FailureReporter::Logged> logged;
    for (int w = 0; w < shape_.writers; ++w) {
      auto& log = *logs_[static_cast<std::size_t>(w)];
      log.attach(arena_, context.first_tick);
      rows_.tick(w) = context.first_tick - options_.horizon;  // of the rollout before the first one
      logged.push_back(
          {&log, &rows_.next[static_cast<std::size_t>(w)], RolloutWriter::rollouts(rows_, w)});
    }
    reporter_.prepare(options_, std::move(logged), options_.kind == SamplerKind::kSerial);
    auto own = context;
    own.reporter = &reporter_;
    if (!context.saved.empty()) restore(context.saved);
    reporter_.watch([&] {
      if (workers_write())
        fork_writers(own);
      else
        filler_ =
            make_filler(RolloutWriter::rollouts(rows_, 0), own, actor, arena_.data(filler_memory_));
    });
    make_rollouts();
  }

  ~RingSampler() override {
    ring_.stop();
    if (filler_) filler_->give_up();
    const BlockingCall call(BlockingCall::kThread);  // the thread may step environments itself
    if (thread_.joinable()) thread_.join();
  }

  Batch collect() override {
    const at::NoGradGuard no_grad;
    if (collected_ % async_.publish_interval == 0)
      parameters_.publish(board_, version_ + collected_);
    if (const auto slot = std::exchange(taken_, -1); slot >= 0) ring_.release(slot);
    if (collected_ == 0) start();
    SplitTimer timer(&times_);
    const auto taken = take();
    timer.count(&SamplerTimes::waiting);
    taken_ = taken.slot;
    const auto batch = read(taken);
    versions_behind_ = version_ + collected_ - taken.tag.policy_version;
    ++collected_;
    timer.count(&SamplerTimes::acting);
    return batch;
  }

  const SamplerTimes& times() const override { return times_; }
  std::int64_t versions_behind() const override { return versions_behind_; }
  RingCounts counts() const override { return ring_.counts(); }
  std::int64_t restarts() const override {
    return group_ ? group_->restarts() : filler_->restarts();
  }

  NamedTensors save(bool) override {
    NamedTensors saved;
    for (std::int64_t b = 0; b < options_.envs; ++b)
      saved.add("env/" + std::to_string(options_.first_env + b), at::empty({0}, at::kByte));
    saved.add("episode_numbers", at::tensor(episode_number_));
    save_statistics(first_rows(), saved);
    // No tick may be used twice, or noise would repeat: rollouts under way are skipped, too.
    const auto tick = tick_ + (shape_.slots + 1) * options_.horizon;
    saved.add("clock", at::tensor({tick, version_ + collected_}));
    return saved;
  }

 private:
  // Each worker acts and writes rollouts of its own environments; otherwise a thread does.
  bool workers_write() const { return options_.kind == SamplerKind::kParallelCpu; }

  RolloutWriter::Parts parts(int writer, Filler& filler, WorkerStatus* status = nullptr) const {
    auto& log = *logs_[static_cast<std::size_t>(writer)];
    return {rows_, ring_, board_, filler, actor_, log, writer, status};
  }

  void fork_writers(const SamplerContext& context) {
    const auto body = [&](int worker, WorkerStatus status) { work(worker, status, context); };
    auto options = worker_options(context);
    options.before_restart = [this, tell = options.before_restart](int worker,
                                                                   const WorkerError& death) {
      tell(worker, death);
      ring_.reclaim(worker);
    };
    group_ = std::make_unique<WorkerGroup>(shape_.writers, body, options);
    for (int w = 0; w < shape_.writers; ++w)
      while (!start_.wait(w, kPatience)) group_->check(w);
    group_->allow_restarts();
  }

  // In the child; never returns.
  void work(int worker, WorkerStatus status, const SamplerContext& context) {
    at::set_num_threads(1);
    auto own = of_writer(context, worker);
    const bool again = status.past_lives() > 0;
    if (again) {
      // The rollout under way is lost, and its ticks are skipped, so that no noise is repeated.
      // Empty states begin new episodes, other than the first ones.
      own.first_tick = rows_.tick(worker) + options_.horizon;
      rows_.tick(worker) = own.first_tick;  // if this process dies, too, the next one skips on
      own.env_states.assign(static_cast<std::size_t>(options_.first_env + options_.envs), {});
      logs_[static_cast<std::size_t>(worker)]->start(own.first_tick);
    }
    Lockstep filler(
        std::make_unique<SerialStepper>(RolloutWriter::rollouts(rows_, worker), own, &status),
        shape_.options);
    RolloutWriter writer(parts(worker, filler, &status), shape_.options, own.first_tick);
    if (!again) start_.arrive(worker);
    while (!start_.wait_release(worker, kPatience)) {
    }
    writer.run();
  }

  std::vector<std::unique_ptr<ActionLog>> make_logs(const EnvSpec& spec) {
    std::vector<std::unique_ptr<ActionLog>> logs;
    const auto bytes = options_.action_log_bytes / static_cast<std::size_t>(shape_.writers);
    for (int w = 0; w < shape_.writers; ++w)
      logs.push_back(std::make_unique<ActionLog>(plan_, spec, shape_.options, bytes));
    return logs;
  }

  SamplerContext of_writer(const SamplerContext& context, int writer) const {
    return {.make_env = context.make_env,
            .spec = context.spec,
            .batch = context.batch,
            .options = shape_.options,
            .saved = context.saved,
            .env_states = context.env_states,
            .first_tick = context.first_tick,
            .rows_begin = context.rows_begin + writer * shape_.options.envs};
  }

  void make_rollouts() {
    for (std::size_t i = 0; i < rows_.slots.size(); ++i) {
      const auto& rows = rows_.slots[i];
      const std::vector<Range> all{{0, rows.rows.envs()}};
      auto& slot = slots_.emplace_back();
      slot.rollout = std::make_unique<Rollout>(rows, agent_, shape_.options, all);
      for (const auto& [name, field] : rows_.initial_state[i])
        slot.initial_state.add(name, view(arena_, field));
    }
  }

  // To be called once the first parameters are published. The thread is started here because forks
  // must precede it.
  void start() {
    if (group_) {
      start_.release();
      return;
    }
    // The actor's parameters must be complete on the device: the thread does not wait for this one.
    if (auto* const on = accelerator(actor_.device())) {
      const c10::DeviceGuard device(actor_.device());
      on->wait();
    }
    thread_ = std::thread([this] {
      try {
        at::set_num_threads(1);
        reporter_.step_in_this_thread();
        reporter_.watch([this] { RolloutWriter(parts(0, *filler_), options_, tick_).run(); });
      } catch (...) {
        failure_ = std::current_exception();
      }
      ring_.stop();
    });
  }

  TrajectoryRing::Taken take() {
    look_for_deaths();
    for (;;) {
      if (const auto rollout = ring_.take(version_ + collected_, kPatience)) return *rollout;
      throw_if_interrupted();
      if (group_) check_group();
      if (!ring_.stopped()) continue;
      if (thread_.joinable()) thread_.join();
      std::rethrow_exception(failure_);
    }
  }

  // When one worker hangs, rollouts of the others still arrive. So all are checked regularly: each
  // reports that it is alive at least once per kPatience, unless it is in an environment or acts.
  void look_for_deaths() {
    const auto now = steady_clock::now();
    if (!group_ || now - looked_ < kPatience) return;
    looked_ = now;
    check_group();
  }
  void check_group() {
    reporter_.watch([this] { group_->check(WorkerGroup::kEverybody); });
  }

  // Episodes are numbered by the rollout's environments; here by those of the sampler.
  Batch read(const TrajectoryRing::Taken& taken) {
    const auto& slot = slots_[static_cast<std::size_t>(taken.slot)];
    const auto first_env = taken.tag.writer * shape_.options.envs;
    slot.rollout->read({first_env, taken.tag.first_tick, taken.tag.policy_version},
                       slot.initial_state);
    const auto batch = slot.rollout->batch();
    episodes_ = batch.episodes;
    for (auto& episode : episodes_) {
      episode.env += first_env;
      episode.number = episode_number_[static_cast<std::size_t>(episode.env)]++;
    }
    tick_ = std::max(tick_, taken.tag.first_tick + options_.horizon);
    return {batch.samples, episodes_, batch.infos};
  }

  void restore(const NamedTensors& saved) {
    auto numbers = at::empty({options_.envs}, at::kLong), clock = at::empty({2}, at::kLong);
    shoal::restore(saved, "", {{"episode_numbers", numbers}, {"clock", clock}});
    std::copy_n(numbers.const_data_ptr<std::int64_t>(), options_.envs, episode_number_.begin());
    version_ = clock[1].item<std::int64_t>();
    restore_statistics(first_rows(), saved);
  }

  // The rows of each writer in which its environments keep their statistics.
  std::vector<const SharedRollout*> first_rows() const {
    std::vector<const SharedRollout*> all;
    for (const auto& rows : rows_.next) all.push_back(&rows);
    return all;
  }

  // The reader's objects for a slot.
  struct Slot {
    std::unique_ptr<Rollout> rollout;
    NamedTensors initial_state;
  };

  Agent& agent_;
  Agent& actor_;
  SamplerOptions options_;
  AsyncOptions async_;
  Shape shape_;
  Parameters parameters_;
  Arena::Plan plan_;
  RolloutSlots rows_;
  Arena::Field ring_memory_, board_memory_, start_memory_, filler_memory_;
  std::vector<std::unique_ptr<ActionLog>> logs_;  // of each writer
  Arena arena_;
  FailureReporter reporter_;
  TrajectoryRing ring_;
  ParameterBoard board_;
  StepBarrier start_;  // acting workers wait here for the first parameters
  std::vector<Slot> slots_;
  std::unique_ptr<WorkerGroup> group_;  // the acting workers
  std::unique_ptr<Filler> filler_;      // of the acting thread
  steady_clock::time_point looked_;     // last check of the workers
  std::thread thread_;
  std::exception_ptr failure_;  // of the thread; valid once the ring is stopped
  int taken_ = -1;              // the slot of the last batch
  std::int64_t collected_ = 0, version_ = 0, versions_behind_ = 0;
  std::int64_t tick_;  // the latest tick collected
  std::vector<std::int64_t> episode_number_;
  std::vector<Episode> episodes_;
  SamplerTimes times_;
};

void check(const SamplerOptions& o, const AsyncOptions& async) {
  require(async.slots == 0 || async.slots >= 2,
          "async.slots is {}; it must be at least 2 (one to write, one to read), or 0 for the "
          "default",
          async.slots);
  require(async.publish_interval >= 1, "async.publish_interval is {}; it must be at least 1",
          async.publish_interval);
  require(async.stale != StaleRollouts::kDrop || async.max_lag >= async.publish_interval - 1,
          "async.max_lag is {} and async.publish_interval is {}: with async.stale = drop, every "
          "rollout "
          "between two publications would be dropped, and sampling would never continue; set "
          "async.max_lag to at least {}",
          async.max_lag, async.publish_interval, async.publish_interval - 1);
  require(
      o.on_death == OnDeath::kFail || o.kind != SamplerKind::kSerial,
      "sampler.on_death is restart, but an asynchronous serial sampler has no workers to restart; "
      "set it to fail");
  require(o.kind != SamplerKind::kParallelCpu || o.envs % o.workers == 0,
          "sampler.envs is {}, which is not divisible by {} workers; an asynchronous parallel-cpu "
          "sampler requires that",
          o.envs, o.workers);
  require(o.kind != SamplerKind::kParallelCpu || o.groups <= o.envs / o.workers,
          "sampler.groups is {}, and each of {} workers has {} environments; in an asynchronous "
          "parallel-cpu sampler every worker needs at least one environment per group",
          o.groups, o.workers, o.envs / o.workers);
}

}  // namespace

std::unique_ptr<AsyncSampler> make_async_sampler(const EnvFactory& make_env, Agent& agent,
                                                 Agent& actor, const SamplerOptions& options,
                                                 const AsyncOptions& async,
                                                 const NamedTensors& saved) {
  if (options.kind == SamplerKind::kAuto)
    return make_async_sampler(make_env, agent, actor,
                              choose_sampler(make_env, agent, options, {.measure = false}).options,
                              async, saved);
  auto context = checked_context(make_env, options, saved);
  check(options, async);
  // Rows are not saved, so environments cannot resume their episodes.
  std::ranges::fill(context.env_states, std::span<const std::byte>());
  return std::make_unique<RingSampler>(context, agent, actor, async);
}

}  // namespace shoal
