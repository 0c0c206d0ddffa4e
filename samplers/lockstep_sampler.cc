#include <ATen/core/grad_mode.h>

#include <utility>
#include <vector>

#include "samplers/partition.h"
#include "samplers/samplers.h"
#include "samplers/saved_state.h"
#include "samplers/stepper.h"
#include "samplers/window.h"
#include "shoal/core/step_barrier.h"

namespace shoal {

namespace {

using Clock = std::chrono::steady_clock;

// All environments of a group step together; the calling process acts for all of them.
class LockstepSampler : public Sampler {
 public:
  LockstepSampler(const Making& making, Agent& agent)
      : options_(making.options),
        groups_(options_.groups),
        processes_(options_.kind == SamplerKind::kSerial ? 1 : options_.workers),
        while_stepping_(options_.kind == SamplerKind::kSerial ? &SamplerTimes::stepping
                                                              : &SamplerTimes::waiting),
        shared_(plan_, making.spec, agent.spec(),
                {.horizon = options_.horizon,
                 .envs = options_.envs,
                 .collectors = groups_ * processes_,
                 .groups = groups_,
                 .may_wait = may_wait(options_)}),
        barriers_(plan_.add(
            {groups_}, {.dtype = DType::kUInt8,
                        .shape = {static_cast<std::int64_t>(StepBarrier::bytes(processes_))}})),
        log_(plan_, making.spec, options_, options_.action_log_bytes),
        arena_(plan_) {
    shared_.attach(arena_);
    log_.attach(arena_, making.first_tick);
    const bool serial = options_.kind == SamplerKind::kSerial;
    reporter_.prepare(options_, {{&log_, &shared_, {&shared_}}}, serial);
    auto own = making;
    own.reporter = &reporter_;
    if (!making.saved.empty()) {
      restore_rows(shared_, making.saved);
      log_.keep_states(making.saved);
    }
    reporter_.watch([&] {
      if (serial) {
        stepper_ = make_serial_stepper({&shared_}, own);
        return;
      }
      std::vector<std::byte*> barriers;
      for (int g = 0; g < groups_; ++g) barriers.push_back(arena_.element(barriers_, g).data());
      stepper_ = make_parallel_stepper({&shared_}, own, barriers);
    });
    std::vector<Range> parts;
    for (int g = 0; g < groups_; ++g) parts.push_back(group_range(options_.envs, groups_, g));
    window_ = std::make_unique<Window>(shared_, agent, options_, std::move(parts));
    if (!making.saved.empty()) window_->restore(making.saved);
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
      finish_resets();
      window_->advance();
      stepper_->save(saving(reset_others), saved);
      window_->save(saved);
      waits_ = false;
      return saved;
    });
  }

 private:
  Batch collect_window() {
    at::NoGradGuard no_grad;
    auto before = Clock::now();
    waits_ = true;
    finish_resets();
    log_.save_if_due([this](NamedTensors& states) {
      window_->advance();
      stepper_->save(SharedRows::kSaveForLog, states);
    });
    before = count_time(times_.*while_stepping_, before);
    window_->begin();
    log_.begin(0);
    const auto horizon = options_.horizon;
    for (std::int64_t t = 0; t < horizon; ++t) {
      for (int g = 0; g < groups_; ++g) {
        if (t > 0) finish_step(t - 1, g, before);
        window_->act(t, static_cast<std::size_t>(g));
        before = count_time(times_.acting, before);
        stepper_->start(t, g);
      }
    }
    for (int g = 0; g < groups_; ++g) finish_step(horizon - 1, g, before);
    log_.end(shared_);
    window_->finish();
    before = count_time(times_.acting, before);
    resetting_ = shared_.may_wait;
    for (int g = 0; g < groups_ && resetting_; ++g) stepper_->start(horizon, g);
    count_time(times_.*while_stepping_, before);
    times_.uploaded_bytes = window_->uploaded_bytes();
    waits_ = false;
    return window_->batch();
  }

  void finish_resets() {
    for (int g = 0; g < groups_ && resetting_; ++g) stepper_->finish(g);
    resetting_ = false;
  }
  void finish_step(std::int64_t t, int group, Clock::time_point& before) {
    stepper_->finish(group);
    before = count_time(times_.*while_stepping_, before);
    std::int64_t ended = 0;
    for (int w = 0; w < processes_; ++w) ended += shared_.ended_in(group * processes_ + w);
    if (ended > 0)
      window_->record_ends(t, static_cast<std::size_t>(group), window_->state_after(t));
  }

  SamplerOptions options_;
  int groups_, processes_;
  double SamplerTimes::*while_stepping_;
  Arena::Plan plan_;
  SharedRows shared_;
  Arena::Field barriers_;
  ActionLog log_;
  Arena arena_;
  FailureReporter reporter_;
  std::unique_ptr<Stepper> stepper_;
  std::unique_ptr<Window> window_;
  bool resetting_ = false;  // step T is under way
  bool waits_ = false;      // stays true where a wait was given up
  SamplerTimes times_;
};

}  // namespace

std::unique_ptr<Sampler> make_lockstep_sampler(const Making& making, Agent& agent) {
  return std::make_unique<LockstepSampler>(making, agent);
}

}  // namespace shoal
