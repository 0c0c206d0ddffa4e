#include <ATen/core/grad_mode.h>

#include <utility>
#include <vector>

#include "samplers/dynamic_batching.h"
#include "samplers/rollout.h"
#include "samplers/saved_state.h"

namespace shoal {

namespace {

// Workers go at their own pace; the calling process acts for whoever is there.
class DynamicSampler : public Sampler {
 public:
  DynamicSampler(const SamplerContext& context, Agent& agent)
      : options_(context.options),
        shared_(plan_, context.spec, agent.spec(),
                {.horizon = options_.horizon,
                 .envs = options_.envs,
                 .collectors = options_.workers,
                 .groups = options_.workers,
                 .ends_wait = true,
                 .may_wait = may_wait(options_)}),
        gate_(plan_.add_bytes(FreeRunningWorkers::bytes(options_.workers))),
        log_(plan_, context.spec, options_, options_.action_log_bytes),
        arena_(plan_) {
    shared_.attach(arena_);
    log_.attach(arena_, context.first_tick);
    reporter_.prepare(options_, {{&log_, &shared_, {&shared_}}});
    auto own = context;
    own.reporter = &reporter_;
    if (!context.saved.empty()) {
      restore_rows(shared_, context.saved);
      log_.keep_states(context.saved);
    }
    reporter_.watch([&] {
      workers_ = std::make_unique<FreeRunningWorkers>(Rollouts{&shared_}, own, arena_.data(gate_));
    });
    fill_ = std::make_unique<DynamicBatching>(*workers_, options_);
    rollout_ = std::make_unique<Rollout>(shared_, agent, options_, workers_->envs());
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
      fill_->finish();
      rollout_->advance();
      workers_->save(saving(reset_others), saved);
      rollout_->save(saved);
      waits_ = false;
      return saved;
    });
  }

 private:
  Batch collect_rollout() {
    const at::NoGradGuard no_grad;
    auto before = std::chrono::steady_clock::now();
    waits_ = true;
    const auto acted = fill_->acting();
    fill_->finish();  // resets
    log_.save_if_due([this](NamedTensors& states) {
      rollout_->advance();
      workers_->save(SharedRollout::kSaveForLog, states);
    });
    rollout_->begin();
    log_.begin(0);
    fill_->fill(shared_, 0, rollout_->actor(), [] { return false; });
    log_.end(shared_);
    before = count_time(times_.waiting, before);
    times_.acting += fill_->acting() - acted;
    times_.waiting -= fill_->acting() - acted;
    rollout_->finish(final_state_);
    count_time(times_.acting, before);
    times_.uploaded_bytes = rollout_->uploaded_bytes();
    if (shared_.may_wait) fill_->start_resets(0);
    waits_ = false;
    return rollout_->batch();
  }

  SamplerOptions options_;
  Arena::Plan plan_;
  SharedRollout shared_;
  Arena::Field gate_;
  ActionLog log_;
  Arena arena_;
  FailureReporter reporter_;
  std::unique_ptr<FreeRunningWorkers> workers_;
  std::unique_ptr<DynamicBatching> fill_;
  std::unique_ptr<Rollout> rollout_;
  NamedTensors final_state_;  // [T, B, ...], where an episode ended
  bool waits_ = false;        // stays true where a wait was given up
  SamplerTimes times_;
};

}  // namespace

std::unique_ptr<Sampler> make_dynamic_sampler(const SamplerContext& context, Agent& agent) {
  return std::make_unique<DynamicSampler>(context, agent);
}

}  // namespace shoal
