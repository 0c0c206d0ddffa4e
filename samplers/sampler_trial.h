#pragma once

#include <chrono>
#include <cstddef>

#include "samplers/turns.h"
#include "shoal/core/arena.h"
#include "shoal/ipc/step_barrier.h"
#include "shoal/ipc/worker_group.h"
#include "shoal/samplers/sampler.h"

namespace shoal {

// A sampler for measuring, in a process of its own, which makes the sampler and acts with a copy of
// the agent. The rules of make_sampler() apply.
class SamplerTrial {
 public:
  // threads: of tensor operations. is_whole: the rollouts are as long as those of the run. Then
  // what is paid once a rollout counts: to follow changed parameters, and the slow start after a
  // pause.
  SamplerTrial(const EnvFactory& make_env, Agent& agent, const SamplerOptions& options, int threads,
               bool is_whole);

  // Waits until the sampler has filled its first rollouts. Returns false after the limit; the trial
  // is of no use then. Throws WorkerError if an environment or a process fails, and Interrupted.
  bool start(std::chrono::milliseconds limit);
  // Seconds in which the sampler was made, without the rollout.
  double first_making() const { return report_->first_making; }
  // Seconds in which a second sampler is made in the same process, which has loaded by then
  // whatever its environments load. Call it after start(), once, before take_turn().
  double making_again();
  // Fills rollouts for a fiftieth of a second, at least one; of shorter ones a few before them.
  // Throws as start(), and WorkerError if that takes longer than 5 s.
  Turn take_turn();

 private:
  struct Report {
    double first_making = 0, second_making = 0;
    bool makes_again = false;
    Turn turn;
  };
  [[noreturn]] void serve(const EnvFactory& make_env, Agent& agent, const SamplerOptions& options,
                          int threads, bool is_whole);
  void await_result();
  bool await(std::chrono::milliseconds limit);

  Arena::Plan plan_;
  Arena::Field barrier_memory_, report_memory_;
  Arena arena_;
  StepBarrier barrier_;
  Report* report_;
  WorkerGroup group_;  // last: it forks
};

}  // namespace shoal
