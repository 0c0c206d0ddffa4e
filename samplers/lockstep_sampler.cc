#include <ATen/core/grad_mode.h>

#include <vector>

#include "samplers/mailbox.h"
#include "samplers/partition.h"
#include "samplers/samplers.h"
#include "samplers/saved_state.h"
#include "samplers/window.h"
#include "shoal/core/step_barrier.h"

namespace shoal {

namespace {

using Clock = std::chrono::steady_clock;

// Makes the environments of a group take one step: start() once their actions are there, and what
// follows is there after finish(). If resets wait, step T resets what waits.
class Stepper {
 public:
  virtual ~Stepper() = default;
  virtual void start(std::int64_t t, int group) = 0;
  virtual void finish(int group) = 0;
  virtual void save(bool reset_others, NamedTensors& to) = 0;
};

class SerialStepper : public Stepper {
 public:
  SerialStepper(const SharedRows& shared, const Making& making) : options_(making.options) {
    for (int g = 0; g < options_.groups; ++g)
      collectors_.push_back(make_collector(shared, making, g, 1, 0, nullptr));
    steps_.resize(collectors_.size());
  }
  void start(std::int64_t t, int group) override { steps_[static_cast<std::size_t>(group)] = t; }
  void finish(int group) override {
    const auto g = static_cast<std::size_t>(group);
    collectors_[g]->step(steps_[g]);
  }
  void save(bool reset_others, NamedTensors& to) override {
    for (int g = 0; g < options_.groups; ++g)
      add_env_states(collectors_[static_cast<std::size_t>(g)]->save(reset_others),
                     group_range(options_.envs, options_.groups, g), to);
  }

 private:
  SamplerOptions options_;
  std::vector<std::int64_t> steps_;  // that the groups are to take
  std::vector<std::unique_ptr<Collector>> collectors_;
};

// A worker has environments of every group, if there are enough, and steps the groups by turns.
class ParallelStepper : public Stepper {
 public:
  ParallelStepper(const SharedRows& shared, const std::vector<std::byte*>& barriers,
                  const Making& making)
      : shared_(shared), options_(making.options), mailbox_(options_.groups * options_.workers) {
    const auto& o = options_;
    for (int g = 0; g < o.groups; ++g) {
      auto& group = groups_.emplace_back(StepBarrier(barriers[static_cast<std::size_t>(g)],
                                                     o.workers, default_spin(o.workers + 1)));
      for (int w = 0; w < o.workers; ++w)
        if (!worker_range(o.envs, o.groups, g, o.workers, w).empty()) group.workers.push_back(w);
    }
    const auto body = [&](int worker, WorkerStatus status) { work(worker, status, making); };
    workers_ = std::make_unique<WorkerGroup>(o.workers, body, worker_options(o));
    for (int g = 0; g < o.groups; ++g) finish(g);
  }

  void start(std::int64_t t, int group) override {
    shared_.order(group) = t;
    groups_[static_cast<std::size_t>(group)].barrier.release();
  }
  void finish(int group) override {
    auto& [barrier, workers] = groups_[static_cast<std::size_t>(group)];
    for (const int w : workers)
      while (!barrier.wait(w, kPatience)) workers_->check(w);
  }
  void save(bool reset_others, NamedTensors& to) override {
    for (int g = 0; g < options_.groups; ++g)
      start(reset_others ? SharedRows::kSaveAndReset : SharedRows::kSave, g);
    for (int g = 0; g < options_.groups; ++g) finish(g);
    take_env_states(mailbox_, options_, to);
  }

 private:
  struct Group {
    explicit Group(StepBarrier b) : barrier(b) {}
    StepBarrier barrier;
    std::vector<int> workers;  // that have environments of it
  };

  // In the child; never returns.
  void work(int worker, WorkerStatus status, const Making& making) {
    std::vector<std::unique_ptr<Collector>> collectors;
    for (int g = 0; g < options_.groups; ++g)
      collectors.push_back(make_collector(shared_, making, g, options_.workers, worker, &status));
    for (std::size_t g = 0; g < groups_.size(); ++g)
      if (collectors[g]) groups_[g].barrier.arrive(worker);
    for (std::size_t g = 0;; g = (g + 1) % groups_.size()) {
      if (!collectors[g]) continue;
      while (!groups_[g].barrier.wait_release(worker, kPatience)) {
      }
      const auto group = static_cast<int>(g);
      const auto t = shared_.order(group);
      if (t < 0)
        mailbox_.put(group * options_.workers + worker,
                     collectors[g]->save(t == SharedRows::kSaveAndReset));
      else
        collectors[g]->step(t);
      groups_[g].barrier.arrive(worker);
    }
  }

  const SharedRows& shared_;
  SamplerOptions options_;
  Mailbox mailbox_;
  std::vector<Group> groups_;
  std::unique_ptr<WorkerGroup> workers_;
};

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
                 .resets_wait = options_.reset == ResetMode::kWait}),
        barriers_(plan_.add(
            {groups_}, {.dtype = DType::kUInt8,
                        .shape = {static_cast<std::int64_t>(StepBarrier::bytes(processes_))}})),
        arena_(plan_) {
    shared_.attach(arena_);
    if (!making.saved.empty()) restore_rows(shared_, making.saved);
    if (options_.kind == SamplerKind::kSerial) {
      stepper_ = std::make_unique<SerialStepper>(shared_, making);
    } else {
      std::vector<std::byte*> barriers;
      for (int g = 0; g < groups_; ++g) barriers.push_back(arena_.element(barriers_, g).data());
      stepper_ = std::make_unique<ParallelStepper>(shared_, barriers, making);
    }
    std::vector<Range> parts;
    for (int g = 0; g < groups_; ++g) parts.push_back(group_range(options_.envs, groups_, g));
    window_ = std::make_unique<Window>(shared_, agent, options_, std::move(parts));
    if (!making.saved.empty()) window_->restore(making.saved);
  }

  Batch collect() override {
    at::NoGradGuard no_grad;
    auto before = Clock::now();
    finish_resets();
    before = count_time(times_.*while_stepping_, before);
    window_->begin();
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
    window_->finish();
    before = count_time(times_.acting, before);
    resetting_ = shared_.resets_wait;
    for (int g = 0; g < groups_ && resetting_; ++g) stepper_->start(horizon, g);
    count_time(times_.*while_stepping_, before);
    return window_->batch();
  }

  const SamplerTimes& times() const override { return times_; }

  NamedTensors save(bool reset_others) override {
    NamedTensors saved;
    finish_resets();
    window_->advance();
    stepper_->save(reset_others, saved);
    window_->save(saved);
    return saved;
  }

 private:
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
  Arena arena_;
  std::unique_ptr<Stepper> stepper_;
  std::unique_ptr<Window> window_;
  bool resetting_ = false;  // step T is under way
  SamplerTimes times_;
};

}  // namespace

std::unique_ptr<Sampler> make_lockstep_sampler(const Making& making, Agent& agent) {
  return std::make_unique<LockstepSampler>(making, agent);
}

}  // namespace shoal
