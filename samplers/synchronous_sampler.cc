#include <ATen/core/grad_mode.h>

#include <exception>
#include <utility>

#include "samplers/filler.h"
#include "samplers/rollout.h"
#include "samplers/saved_state.h"

namespace shoal {

namespace {

// Sampling and learning alternate: a rollout is filled, then the caller learns from it.
class SynchronousSampler : public Sampler {
 public:
  SynchronousSampler(const SamplerContext& context, Agent& agent)
      : options_(context.options),
        shared_(plan_, context.spec, agent.spec(),
                {.horizon = options_.horizon,
                 .envs = options_.envs,
                 .collectors = options_.groups * processes(),
                 .groups = orders(options_),
                 .ends_wait = filled_elsewhere() || options_.dynamic_batch > 0,
                 .may_wait = may_wait(options_, context.batch)}),
        filler_memory_(plan_.add_bytes(filler_bytes(options_, agent))),
        log_(plan_, context.spec, options_, options_.action_log_bytes),
        arena_(plan_) {
    shared_.attach(arena_);
    log_.attach(arena_, context.first_tick);
    reporter_.prepare(options_, {{&log_, &shared_, {&shared_}}},
                      options_.kind == SamplerKind::kSerial);
    auto own = context;
    own.reporter = &reporter_;
    if (!context.saved.empty()) {
      restore_rows(shared_, context.saved);
      log_.keep_states(context.saved);
    }
    reporter_.watch(
        [&] { filler_ = make_filler({&shared_}, own, agent, arena_.data(filler_memory_)); });
    rollout_ = std::make_unique<Rollout>(shared_, agent, options_, filler_->parts());
    if (!context.saved.empty()) rollout_->restore(context.saved);
    if (!filled_elsewhere())
      actor_ = std::make_unique<BatchedInference>(rollout_->tensors(), agent, options_,
                                                  filler_->parts(), BatchedInference::Options{});
  }

  Batch collect() override {
    if (failure_) std::rethrow_exception(failure_);
    require(!waits_,
            "an exception has ended the sampler's last rollout or save() in the middle: its "
            "environments may have taken different numbers of steps; make another sampler");
    try {
      return reporter_.watch([this] { return collect_rollout(); });
    } catch (const WorkerError&) {
      failure_ = std::current_exception();
      throw;
    }
  }

  const SamplerTimes& times() const override { return times_; }

  NamedTensors save(bool reset_others) override {
    return reporter_.watch([&] {
      NamedTensors saved;
      if (std::exchange(waits_, true)) {
        rollout_->save_given_up(options_.first_env, saved);
        return saved;
      }
      filler_->finish_resets();
      save_environments(saving(reset_others), saved);
      rollout_->save(saved);
      waits_ = false;
      return saved;
    });
  }

 private:
  bool filled_elsewhere() const { return options_.kind == SamplerKind::kParallelCpu; }
  int processes() const { return options_.kind == SamplerKind::kSerial ? 1 : options_.workers; }

  Batch collect_rollout() {
    const at::NoGradGuard no_grad;
    const auto stepping = while_stepping(options_);
    SplitTimer timer(&times_);
    waits_ = true;
    filler_->finish_resets();
    log_.save_if_due(
        [this](NamedTensors& states) { save_environments(Command::kSaveForLog, states); });
    timer.count(stepping);
    rollout_->begin();
    if (actor_) actor_->begin(rollout_->first_tick(), /*device_has_first_row=*/true);
    log_.begin(0);
    filler_->fill({.rollout = 0,
                   .actor = actor_.get(),
                   .ended = [this](std::int64_t t, const Range& envs) { record_ends(t, envs); },
                   .times = &times_});
    log_.end(shared_);
    timer.restart();
    rollout_->finish(filled_elsewhere());
    timer.count(&SamplerTimes::acting);
    if (shared_.may_wait) filler_->start_resets(0);
    timer.count(stepping);
    times_.uploaded_bytes = rollout_->tensors().uploaded;
    waits_ = false;
    return rollout_->batch();
  }

  void record_ends(std::int64_t t, const Range& envs) {
    if (shared_.ends_wait)
      shared_.keep_final_states(t, envs.first, envs.last);
    else
      rollout_->record_ends(t, envs);
  }

  void save_environments(Command how, NamedTensors& to) {
    rollout_->advance();
    filler_->save(how, to);
  }

  SamplerOptions options_;
  Arena::Plan plan_;
  SharedRollout shared_;
  Arena::Field filler_memory_;
  ActionLog log_;
  Arena arena_;
  FailureReporter reporter_;
  std::unique_ptr<Filler> filler_;
  std::unique_ptr<Rollout> rollout_;
  std::unique_ptr<BatchedInference> actor_;  // null if the workers act
  bool waits_ = false;                       // stays true if an exception interrupted a wait
  std::exception_ptr failure_;               // of a worker
  SamplerTimes times_;
};

}  // namespace

std::unique_ptr<Sampler> make_synchronous_sampler(const SamplerContext& context, Agent& agent) {
  return std::make_unique<SynchronousSampler>(context, agent);
}

}  // namespace shoal
