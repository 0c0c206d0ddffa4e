#include "shoal/samplers/sampler.h"

#include <ATen/core/grad_mode.h>
#include <unistd.h>

#include "samplers/collector.h"
#include "samplers/window.h"
#include "shoal/core/error.h"
#include "shoal/core/step_barrier.h"

namespace shoal {

namespace {

using Clock = std::chrono::steady_clock;
// How often a waiting process looks for deaths.
constexpr std::chrono::milliseconds kPatience{100};

// Makes every environment take one step.
class Stepper {
 public:
  virtual ~Stepper() = default;
  virtual void step(std::int64_t t) = 0;
};

class SerialStepper : public Stepper {
 public:
  SerialStepper(const SharedRows& shared, const EnvFactory& make_env, const SamplerOptions& o)
      : collector_(shared, make_env,
                   {.first = 0, .last = o.envs, .worker = 0, .seed = o.seed, .stream = o.stream},
                   nullptr) {}
  void step(std::int64_t t) override { collector_.step(t); }

 private:
  Collector collector_;
};

class ParallelStepper : public Stepper {
 public:
  ParallelStepper(const SharedRows& shared, std::byte* barrier, const EnvFactory& make_env,
                  const SamplerOptions& o)
      : barrier_(barrier, o.workers, default_spin(o.workers + 1)) {
    WorkerGroupOptions options{.step_limit = o.step_limit, .reset_limit = o.reset_limit};
    const auto cores = allowed_cores();
    for (int w = 0; o.pin && w < o.workers; ++w)
      options.cores.push_back(cores[static_cast<std::size_t>(w) % cores.size()]);
    const auto body = [&](int worker, WorkerStatus status) {
      work(worker, status, shared, make_env, o);
    };
    workers_ = std::make_unique<WorkerGroup>(o.workers, body, options);
    await();
  }

  void step(std::int64_t) override {
    barrier_.release();
    await();
  }

 private:
  // In the child; never returns.
  void work(int worker, WorkerStatus status, const SharedRows& shared, const EnvFactory& make_env,
            const SamplerOptions& o) {
    Collector collector(shared, make_env,
                        {.first = o.envs * worker / o.workers,
                         .last = o.envs * (worker + 1) / o.workers,
                         .worker = worker,
                         .seed = o.seed,
                         .stream = o.stream},
                        &status);
    for (std::int64_t t = 0;; t = (t + 1) % o.horizon) {
      barrier_.arrive(worker);
      while (!barrier_.wait_release(worker, kPatience)) {
      }
      collector.step(t);
    }
  }

  void await() {
    for (int w = 0; w < barrier_.workers(); ++w)
      while (!barrier_.wait(w, kPatience)) workers_->check(w);
  }

  StepBarrier barrier_;
  std::unique_ptr<WorkerGroup> workers_;
};

// All environments step together; the calling process acts for all of them.
class LockstepSampler : public Sampler {
 public:
  LockstepSampler(const EnvFactory& make_env, const EnvSpec& spec, Agent& agent,
                  const SamplerOptions& o)
      : horizon_(o.horizon),
        processes_(o.kind == SamplerKind::kSerial ? 1 : o.workers),
        shared_(plan_, row_spec(spec, agent.spec().info), o.horizon, o.envs, processes_),
        barrier_(plan_.add_bytes(StepBarrier::bytes(processes_))),
        arena_(plan_) {
    shared_.attach(arena_);
    for (std::int64_t b = 0; b < o.envs; ++b) shared_.episode_end(b) = {};
    if (o.kind == SamplerKind::kSerial) {
      stepper_ = std::make_unique<SerialStepper>(shared_, make_env, o);
    } else {
      stepper_ = std::make_unique<ParallelStepper>(shared_, arena_.data(barrier_), make_env, o);
    }
    window_ = std::make_unique<Window>(shared_, agent, o);
  }

  Batch collect() override {
    at::NoGradGuard no_grad;
    window_->begin();
    auto before = Clock::now();
    for (std::int64_t t = 0; t < horizon_; ++t) {
      window_->act(t);
      before = count(times_.acting, before);
      stepper_->step(t);
      before = count(times_.waiting, before);
      if (any_ended()) window_->record_ends(t);
    }
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

  bool any_ended() const {
    std::int64_t ended = 0;
    for (int w = 0; w < processes_; ++w) ended += shared_.ended_in(w);
    return ended > 0;
  }

  std::int64_t horizon_;
  int processes_;
  Arena::Plan plan_;
  SharedRows shared_;
  Arena::Field barrier_;
  Arena arena_;
  std::unique_ptr<Stepper> stepper_;
  std::unique_ptr<Window> window_;
  SamplerTimes times_;
};

void check(const SamplerOptions& o) {
  require(o.horizon > 0, "sampler.horizon is {}; a window needs at least 1 step", o.horizon);
  require(o.envs > 0, "sampler.envs is {}; at least 1 environment is needed", o.envs);
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
