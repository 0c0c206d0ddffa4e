#include "shoal/samplers/sampler.h"

#include <ATen/core/grad_mode.h>
#include <unistd.h>

#include "samplers/collector.h"
#include "samplers/partition.h"
#include "samplers/window.h"
#include "shoal/core/error.h"
#include "shoal/core/step_barrier.h"

namespace shoal {

namespace {

using Clock = std::chrono::steady_clock;
// How often a waiting process looks for deaths.
constexpr std::chrono::milliseconds kPatience{100};

// Makes the environments of a group take one step: start() once their actions are there, and what
// follows is there after finish().
class Stepper {
 public:
  virtual ~Stepper() = default;
  virtual void start(std::int64_t t, int group) = 0;
  virtual void finish(int group) = 0;
};

// The collector of a worker for a group; null if it has no environment there.
std::unique_ptr<Collector> make_collector(const SharedRows& shared, const EnvFactory& make_env,
                                          const SamplerOptions& o, int group, int workers,
                                          int worker, WorkerStatus* status) {
  const auto envs = worker_range(o.envs, o.groups, group, workers, worker);
  if (envs.empty()) return nullptr;
  return std::make_unique<Collector>(shared, make_env,
                                     Collector::Options{.first = envs.first,
                                                        .last = envs.last,
                                                        .ends = group * workers + worker,
                                                        .seed = o.seed,
                                                        .stream = o.stream},
                                     status);
}

class SerialStepper : public Stepper {
 public:
  SerialStepper(const SharedRows& shared, const EnvFactory& make_env, const SamplerOptions& o) {
    for (int g = 0; g < o.groups; ++g)
      collectors_.push_back(make_collector(shared, make_env, o, g, 1, 0, nullptr));
  }
  void start(std::int64_t t, int group) override {
    collectors_[static_cast<std::size_t>(group)]->step(t);
  }
  void finish(int) override {}

 private:
  std::vector<std::unique_ptr<Collector>> collectors_;
};

// A worker has environments of every group, if there are enough, and steps the groups by turns.
class ParallelStepper : public Stepper {
 public:
  ParallelStepper(const SharedRows& shared, const std::vector<std::byte*>& barriers,
                  const EnvFactory& make_env, const SamplerOptions& o) {
    for (int g = 0; g < o.groups; ++g) {
      auto& group = groups_.emplace_back(StepBarrier(barriers[static_cast<std::size_t>(g)],
                                                     o.workers, default_spin(o.workers + 1)));
      for (int w = 0; w < o.workers; ++w)
        if (!worker_range(o.envs, o.groups, g, o.workers, w).empty()) group.workers.push_back(w);
    }
    WorkerGroupOptions options{.step_limit = o.step_limit, .reset_limit = o.reset_limit};
    const auto cores = allowed_cores();
    for (int w = 0; o.pin && w < o.workers; ++w)
      options.cores.push_back(cores[static_cast<std::size_t>(w) % cores.size()]);
    const auto body = [&](int worker, WorkerStatus status) {
      work(worker, status, shared, make_env, o);
    };
    workers_ = std::make_unique<WorkerGroup>(o.workers, body, options);
    for (int g = 0; g < o.groups; ++g) finish(g);
  }

  void start(std::int64_t, int group) override {
    groups_[static_cast<std::size_t>(group)].barrier.release();
  }
  void finish(int group) override {
    auto& [barrier, workers] = groups_[static_cast<std::size_t>(group)];
    for (const int w : workers)
      while (!barrier.wait(w, kPatience)) workers_->check(w);
  }

 private:
  struct Group {
    explicit Group(StepBarrier b) : barrier(b) {}
    StepBarrier barrier;
    std::vector<int> workers;  // that have environments of it
  };

  // In the child; never returns.
  void work(int worker, WorkerStatus status, const SharedRows& shared, const EnvFactory& make_env,
            const SamplerOptions& o) {
    std::vector<std::unique_ptr<Collector>> collectors;
    for (int g = 0; g < o.groups; ++g)
      collectors.push_back(make_collector(shared, make_env, o, g, o.workers, worker, &status));
    for (std::size_t g = 0; g < groups_.size(); ++g)
      if (collectors[g]) groups_[g].barrier.arrive(worker);
    for (std::int64_t t = 0;; t = (t + 1) % o.horizon) {
      for (std::size_t g = 0; g < groups_.size(); ++g) {
        if (!collectors[g]) continue;
        while (!groups_[g].barrier.wait_release(worker, kPatience)) {
        }
        collectors[g]->step(t);
        groups_[g].barrier.arrive(worker);
      }
    }
  }

  std::vector<Group> groups_;
  std::unique_ptr<WorkerGroup> workers_;
};

// All environments of a group step together; the calling process acts for all of them.
class LockstepSampler : public Sampler {
 public:
  LockstepSampler(const EnvFactory& make_env, const EnvSpec& spec, Agent& agent,
                  const SamplerOptions& o)
      : horizon_(o.horizon),
        groups_(o.groups),
        processes_(o.kind == SamplerKind::kSerial ? 1 : o.workers),
        shared_(plan_, row_spec(spec, agent.spec().info), o.horizon, o.envs, groups_ * processes_),
        barriers_(plan_.add(
            {groups_}, {.dtype = DType::kUInt8,
                        .shape = {static_cast<std::int64_t>(StepBarrier::bytes(processes_))}})),
        arena_(plan_) {
    shared_.attach(arena_);
    for (std::int64_t b = 0; b < o.envs; ++b) shared_.episode_end(b) = {};
    for (int c = 0; c < groups_ * processes_; ++c) shared_.ended_in(c) = 0;
    if (o.kind == SamplerKind::kSerial) {
      stepper_ = std::make_unique<SerialStepper>(shared_, make_env, o);
    } else {
      std::vector<std::byte*> barriers;
      for (int g = 0; g < groups_; ++g) barriers.push_back(arena_.element(barriers_, g).data());
      stepper_ = std::make_unique<ParallelStepper>(shared_, barriers, make_env, o);
    }
    window_ = std::make_unique<Window>(shared_, agent, o);
  }

  Batch collect() override {
    at::NoGradGuard no_grad;
    window_->begin();
    auto before = Clock::now();
    for (std::int64_t t = 0; t < horizon_; ++t) {
      for (int g = 0; g < groups_; ++g) {
        if (t > 0) finish_step(t - 1, g, before);
        window_->act(t, g);
        before = count(times_.acting, before);
        stepper_->start(t, g);
      }
    }
    for (int g = 0; g < groups_; ++g) finish_step(horizon_ - 1, g, before);
    window_->finish();
    count(times_.acting, before);
    return {window_->samples(), window_->episodes()};
  }

  const SamplerTimes& times() const override { return times_; }

 private:
  static Clock::time_point count(double& seconds, Clock::time_point since) {
    const auto now = Clock::now();
    seconds += std::chrono::duration<double>(now - since).count();
    return now;
  }

  void finish_step(std::int64_t t, int group, Clock::time_point& before) {
    stepper_->finish(group);
    before = count(times_.waiting, before);
    std::int64_t ended = 0;
    for (int w = 0; w < processes_; ++w) ended += shared_.ended_in(group * processes_ + w);
    if (ended > 0) window_->record_ends(t, group);
  }

  std::int64_t horizon_;
  int groups_, processes_;
  Arena::Plan plan_;
  SharedRows shared_;
  Arena::Field barriers_;
  Arena arena_;
  std::unique_ptr<Stepper> stepper_;
  std::unique_ptr<Window> window_;
  SamplerTimes times_;
};

void check(const SamplerOptions& o) {
  require(o.horizon > 0, "sampler.horizon is {}; a window needs at least 1 step", o.horizon);
  require(o.envs > 0, "sampler.envs is {}; at least 1 environment is needed", o.envs);
  require(o.groups >= 1 && o.groups <= 2 && o.groups <= o.envs,
          "sampler.groups is {}; it must be 1 or 2, and at most the number of environments ({})",
          o.groups, o.envs);
  require(o.step_limit.count() > 0 && o.reset_limit.count() > 0,
          "time limits must be positive; found {} and {} ms", o.step_limit.count(),
          o.reset_limit.count());
  if (o.kind == SamplerKind::kSerial) return;
  require(o.workers > 0,
          "sampler.workers is {}; a parallel sampler needs at least 1 (or choose sampler 'serial')",
          o.workers);
  require(o.workers <= o.envs, "{} workers cannot share {} environments; choose at most {} workers",
          o.workers, o.envs, o.envs);
}

}  // namespace

std::unique_ptr<Sampler> make_sampler(const EnvFactory& make_env, Agent& agent,
                                      const SamplerOptions& options) {
  check(options);
  const auto spec =
      make_env(
          {.seed = env_seed(options.seed, options.stream, 0), .index = 0, .stream = options.stream})
          ->spec();
  return std::make_unique<LockstepSampler>(make_env, spec, agent, options);
}

}  // namespace shoal
