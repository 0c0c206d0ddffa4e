#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <vector>

#include "cli/bench_agents.h"
#include "samplers/partition.h"
#include "shoal/agents/agent.h"
#include "shoal/core/arena.h"
#include "shoal/ipc/step_barrier.h"
#include "shoal/samplers/sampler.h"

namespace shoal::cli {

// How many processes of a sampler act at once, each for its own environments.
int acting_processes(const SamplerOptions& sampler);
// For which environments of a rollout one of them acts, batch by batch. The rollouts of
// asynchronous workers that act are of their own environments alone.
std::vector<Range> acting_batches(const SamplerOptions& sampler, bool asynchronous, int process);

// Acting as a sampler does it, without environments: in the same batches, in as many processes at
// once, on the observations of a recorded rollout.
class ActingAlone {
 public:
  // Of one process.
  struct Work {
    Agent& agent;
    std::vector<ActingReplay> batches;
    std::int64_t act();  // for a rollout; the steps
  };

  // Forks if workers act: the rules of make_sampler() hold then. Otherwise the calling process acts
  // on the agent's device, where the rollout is, with `threads`.
  ActingAlone(const Samples& rollout, const EnvSpec& env, Agent& agent,
              const SamplerOptions& sampler, bool asynchronous, int threads);

  // Steps a second, of all processes together.
  double rate(double seconds);

 private:
  static constexpr std::chrono::milliseconds kPatience{100};
  [[noreturn]] void serve(int process, Work work) const;
  double& of_process(int process) const;  // seconds to act for, and then its rate
  void await();

  int processes_, threads_;
  Arena::Plan plan_;
  Arena::Field barrier_memory_, rates_;
  std::unique_ptr<Arena> arena_;
  std::unique_ptr<StepBarrier> barrier_;
  std::unique_ptr<WorkerGroup> group_;  // null: this process acts
  std::vector<Work> here_;              // one, or none
};

}  // namespace shoal::cli
