#include <ATen/core/grad_mode.h>

#include <utility>
#include <vector>

#include "samplers/partition.h"
#include "samplers/rollout.h"
#include "samplers/sampler_context.h"
#include "samplers/saved_state.h"
#include "samplers/stepper.h"
#include "shoal/ipc/step_barrier.h"

namespace shoal {

namespace {

using Clock = std::chrono::steady_clock;

// All environments of a group step together; the calling process acts for all of them.
class LockstepSampler : public Sampler {
 public:
  LockstepSampler(const SamplerContext& context, Agent& agent)
      : options_(context.options),
        groups_(options_.groups),
        processes_(options_.kind == SamplerKind::kSerial ? 1 : options_.workers),
        while_stepping_(options_.kind == SamplerKind::kSerial ? &SamplerTimes::stepping
                                                              : &SamplerTimes::waiting),
        shared_(plan_, context.spec, agent.spec(),
                {.horizon = options_.horizon,
                 .envs = options_.envs,
                 .collectors = groups_ * processes_,
                 .groups = groups_,
                 .may_wait = may_wait(options_)}),
        barriers_(plan_.add(
            {groups_}, {.dtype = DType::kUInt8,
                        .shape = {static_cast<std::int64_t>(StepBarrier::bytes(processes_))}})),
        log_(plan_, context.spec, options_, options_.action_log_bytes),
        arena_(plan_) {
    shared_.attach(arena_);
    log_.attach(arena_, context.first_tick);
    const bool serial = options_.kind == SamplerKind::kSerial;
    reporter_.prepare(options_, {{&log_, &shared_, {&shared_}}}, serial);
    auto own = context;
    own.reporter = &reporter_;
    if (!context.saved.empty()) {
      restore_rows(shared_, context.saved);
      log_.keep_states(context.saved);
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
    rollout_ = std::make_unique<Rollout>(shared_, agent, options_, std::move(parts));
    if (!context.saved.empty()) rollout_->restore(context.saved);
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
      finish_resets();
      rollout_->advance();
      stepper_->save(saving(reset_others), saved);
      rollout_->save(saved);
      waits_ = false;
      return saved;
    });
  }

 private:
  Batch collect_rollout() {
    at::NoGradGuard no_grad;
    auto before = Clock::now();
    waits_ = true;
    finish_resets();
    log_.save_if_due([this](NamedTensors& states) {
      rollout_->advance();
      stepper_->save(SharedRollout::kSaveForLog, states);
    });
    before = count_time(times_.*while_stepping_, before);
    rollout_->begin();
    log_.begin(0);
    const auto horizon = options_.horizon;
    for (std::int64_t t = 0; t < horizon; ++t) {
      for (int g = 0; g < groups_; ++g) {
        if (t > 0) finish_step(t - 1, g, before);
        rollout_->act(t, static_cast<std::size_t>(g));
        before = count_time(times_.acting, before);
        stepper_->start(t, g);
      }
    }
    for (int g = 0; g < groups_; ++g) finish_step(horizon - 1, g, before);
    log_.end(shared_);
    rollout_->finish();
    before = count_time(times_.acting, before);
    resetting_ = shared_.may_wait;
    for (int g = 0; g < groups_ && resetting_; ++g) stepper_->start(horizon, g);
    count_time(times_.*while_stepping_, before);
    times_.uploaded_bytes = rollout_->uploaded_bytes();
    waits_ = false;
    return rollout_->batch();
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
      rollout_->record_ends(t, static_cast<std::size_t>(group), rollout_->state_after(t));
  }

  SamplerOptions options_;
  int groups_, processes_;
  double SamplerTimes::*while_stepping_;
  Arena::Plan plan_;
  SharedRollout shared_;
  Arena::Field barriers_;
  ActionLog log_;
  Arena arena_;
  FailureReporter reporter_;
  std::unique_ptr<Stepper> stepper_;
  std::unique_ptr<Rollout> rollout_;
  bool resetting_ = false;  // step T is under way
  bool waits_ = false;      // stays true where a wait was given up
  SamplerTimes times_;
};

}  // namespace

std::unique_ptr<Sampler> make_lockstep_sampler(const SamplerContext& context, Agent& agent) {
  return std::make_unique<LockstepSampler>(context, agent);
}

}  // namespace shoal
