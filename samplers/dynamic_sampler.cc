#include <ATen/core/grad_mode.h>

#include <utility>
#include <vector>

#include "samplers/dynamic_fill.h"
#include "samplers/saved_state.h"
#include "samplers/window.h"

namespace shoal {

namespace {

// Workers go at their own pace; the calling process acts for whoever is there.
class DynamicSampler : public Sampler {
 public:
  DynamicSampler(const Making& making, Agent& agent)
      : options_(making.options),
        shared_(plan_, making.spec, agent.spec(),
                {.horizon = options_.horizon,
                 .envs = options_.envs,
                 .collectors = options_.workers,
                 .groups = options_.workers,
                 .ends_wait = true,
                 .may_wait = may_wait(options_)}),
        gate_(plan_.add_bytes(GatedWorkers::bytes(options_.workers))),
        log_(plan_, making.spec, options_, options_.action_log_bytes),
        arena_(plan_) {
    shared_.attach(arena_);
    log_.attach(arena_, making.first_tick);
    reporter_.prepare(options_, {{&log_, &shared_, {&shared_}}});
    auto own = making;
    own.reporter = &reporter_;
    if (!making.saved.empty()) {
      restore_rows(shared_, making.saved);
      log_.keep_states(making.saved);
    }
    reporter_.watch([&] {
      workers_ = std::make_unique<GatedWorkers>(Windows{&shared_}, own, arena_.data(gate_));
    });
    fill_ = std::make_unique<DynamicFill>(*workers_, options_);
    window_ = std::make_unique<Window>(shared_, agent, options_, workers_->envs());
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
      fill_->finish();
      window_->advance();
      workers_->save(saving(reset_others), saved);
      window_->save(saved);
      waits_ = false;
      return saved;
    });
  }

 private:
  Batch collect_window() {
    const at::NoGradGuard no_grad;
    auto before = std::chrono::steady_clock::now();
    waits_ = true;
    const auto acted = fill_->acting();
    fill_->finish();  // resets
    log_.save_if_due([this](NamedTensors& states) {
      window_->advance();
      workers_->save(SharedRows::kSaveForLog, states);
    });
    window_->begin();
    log_.begin(0);
    fill_->fill(shared_, 0, window_->actor(), [] { return false; });
    log_.end(shared_);
    before = count_time(times_.waiting, before);
    times_.acting += fill_->acting() - acted;
    times_.waiting -= fill_->acting() - acted;
    window_->finish(final_state_);
    count_time(times_.acting, before);
    times_.uploaded_bytes = window_->uploaded_bytes();
    if (shared_.may_wait) fill_->start_resets(0);
    waits_ = false;
    return window_->batch();
  }

  SamplerOptions options_;
  Arena::Plan plan_;
  SharedRows shared_;
  Arena::Field gate_;
  ActionLog log_;
  Arena arena_;
  FailureReporter reporter_;
  std::unique_ptr<GatedWorkers> workers_;
  std::unique_ptr<DynamicFill> fill_;
  std::unique_ptr<Window> window_;
  NamedTensors final_state_;  // [T, B, ...], where an episode ended
  bool waits_ = false;        // stays true where a wait was given up
  SamplerTimes times_;
};

}  // namespace

std::unique_ptr<Sampler> make_dynamic_sampler(const Making& making, Agent& agent) {
  return std::make_unique<DynamicSampler>(making, agent);
}

}  // namespace shoal
