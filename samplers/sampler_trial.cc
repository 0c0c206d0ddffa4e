#include "samplers/sampler_trial.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <new>

#include "samplers/sampler_context.h"
#include "shoal/core/error.h"
#include "shoal/core/stop.h"

namespace shoal {
namespace {

using TrialClock = std::chrono::steady_clock;

double seconds_since(TrialClock::time_point start) {
  return std::chrono::duration<double>(TrialClock::now() - start).count();
}

// In a run the agent process learns between two rollouts, and waiting workers go to sleep.
void learn_for_a_moment() {
  constexpr double kSeconds = 0.3e-3;
  for (const auto start = TrialClock::now(); seconds_since(start) < kSeconds;) {
  }
}

Turn turn_of(Sampler& sampler) {
  constexpr double kSampling = 0.02, kAltogether = 0.06;
  const auto begin = TrialClock::now();
  Turn turn;
  do {
    const auto start = TrialClock::now();
    const auto steps = static_cast<double>(sampler.collect().samples.steps);
    const double seconds = seconds_since(start);
    turn.shortest = std::min(turn.shortest, seconds / steps);
    turn.steps += steps;
    turn.seconds += seconds;
    learn_for_a_moment();
  } while (turn.seconds < kSampling && seconds_since(begin) < kAltogether);
  return turn;
}

}  // namespace

SamplerTrial::SamplerTrial(const EnvFactory& make_env, Agent& agent, const SamplerOptions& options,
                           int threads)
    : barrier_memory_(plan_.add_bytes(StepBarrier::bytes(1))),
      report_memory_(plan_.add_bytes(sizeof(Report))),
      arena_(plan_),
      barrier_(arena_.data(barrier_memory_), 1, /*spin=*/0),
      report_(new (arena_.data(report_memory_)) Report),
      group_(1, [&](int, WorkerStatus) { serve(make_env, agent, options, threads); }) {}

void SamplerTrial::serve(const EnvFactory& make_env, Agent& agent, const SamplerOptions& options,
                         int threads) {
  const auto start = TrialClock::now();
  const auto sampler = make_sampler(make_env, agent, options);
  report_->making = seconds_since(start);
  at::set_num_threads(threads);  // after the fork of the workers
  sampler->collect();
  for (;;) {
    barrier_.arrive(0);
    while (!barrier_.wait_release(0, kPatience)) {
    }
    report_->turn = turn_of(*sampler);
  }
}

bool SamplerTrial::await(std::chrono::milliseconds limit) {
  constexpr std::chrono::milliseconds kBetweenLooks{20};
  const auto until = TrialClock::now() + limit;
  while (!barrier_.wait(0, kBetweenLooks)) {
    throw_if_interrupted();
    group_.check();
    if (TrialClock::now() > until) return false;
  }
  return true;
}

bool SamplerTrial::start(std::chrono::milliseconds limit) { return await(limit); }

Turn SamplerTrial::take_turn() {
  constexpr std::chrono::seconds kLimit{5};
  barrier_.release();
  if (!await(kLimit)) throw std::runtime_error("environments were too slow to be measured");
  return report_->turn;
}

}  // namespace shoal
