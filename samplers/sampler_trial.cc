#include "samplers/sampler_trial.h"

#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>

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
void learn_for_a_moment(Agent& agent, bool changes) {
  constexpr double kSeconds = 0.3e-3;
  if (const auto parameters = agent.acting_parameters(); changes && !parameters.empty()) {
    const at::NoGradGuard no_grad;
    parameters.begin()->second.neg_();  // any change will do
    agent.parameters_changed();
  }
  for (const auto start = TrialClock::now(); seconds_since(start) < kSeconds;) {
  }
}

// After a pause, workers may wake up on the same core, with cold caches. Of the long rollouts of a
// run that is a small part, so it is not counted in shorter ones.
Turn turn_of(Sampler& sampler, Agent& agent, bool is_whole) {
  constexpr double kWarming = 0.03, kSampling = 0.02, kAltogether = 0.06;
  const auto begin = TrialClock::now();
  Turn turn;
  while (!is_whole && turn.warming < kWarming) {
    sampler.collect();
    turn.warming = seconds_since(begin);
  }
  do {
    const auto start = TrialClock::now();
    const auto steps = static_cast<double>(sampler.collect().samples.steps);
    const double seconds = seconds_since(start);
    turn.shortest = std::min(turn.shortest, seconds / steps);
    turn.steps += steps;
    turn.seconds += seconds;
    learn_for_a_moment(agent, /*changes=*/is_whole);
  } while (turn.seconds < kSampling && seconds_since(begin) < kAltogether);
  return turn;
}

}  // namespace

SamplerTrial::SamplerTrial(const EnvFactory& make_env, Agent& agent, const SamplerOptions& options,
                           int threads, bool is_whole)
    : barrier_memory_(plan_.add_bytes(StepBarrier::bytes(1))),
      report_memory_(plan_.add_bytes(sizeof(Report))),
      arena_(plan_),
      barrier_(arena_.data(barrier_memory_), 1, /*spin=*/0),
      report_(new (arena_.data(report_memory_)) Report),
      group_(1, [&](int, WorkerStatus) { serve(make_env, agent, options, threads, is_whole); }) {}

void SamplerTrial::serve(const EnvFactory& make_env, Agent& agent, const SamplerOptions& options,
                         int threads, bool is_whole) {
  const auto make = [&](double& seconds) {
    const auto start = TrialClock::now();
    auto sampler = make_sampler(make_env, agent, options);
    seconds = seconds_since(start);
    return sampler;
  };
  const auto sampler = make(report_->first_making);
  at::set_num_threads(threads);                    // after the fork of the workers
  for (int i = 0; i < 2; ++i) sampler->collect();  // until its workers sleep on different cores
  for (;;) {
    barrier_.arrive(0);
    while (!barrier_.wait_release(0, kPatience)) {
    }
    if (report_->makes_again)
      make(report_->second_making);
    else
      report_->turn = turn_of(*sampler, agent, is_whole);
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

void SamplerTrial::await_result() {
  constexpr std::chrono::seconds kLimit{5};
  barrier_.release();
  if (!await(kLimit)) throw std::runtime_error("environments were too slow to be measured");
}

double SamplerTrial::making_again() {
  report_->makes_again = true;
  await_result();
  report_->makes_again = false;
  return report_->second_making;
}

Turn SamplerTrial::take_turn() {
  await_result();
  return report_->turn;
}

}  // namespace shoal
