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

// Number of processes of a sampler that act at once, each for its own environments.
int acting_processes(const SamplerOptions& sampler);
// The batches of environments of a rollout for which one acting process acts. A rollout of an
// asynchronous worker that acts holds the worker's own environments only.
std::vector<Range> acting_batches(const SamplerOptions& sampler, bool asynchronous, int process);

// Measures acting without environments: in the batches and the number of processes of a sampler, on
// the observations of a recorded rollout.
class ActingAlone {
 public:
  // The work of one process.
  struct Work {
    Agent& agent;
    std::vector<ActingReplay> batches;
    std::int64_t act();  // acts for one rollout; returns the steps
  };

  // Forks if workers act: then the rules of make_sampler() apply. Otherwise the calling process
  // acts on the agent's device, which must hold the rollout, with `threads` threads.
  ActingAlone(const Samples& rollout, const EnvSpec& env, Agent& agent,
              const SamplerOptions& sampler, bool asynchronous, int threads);

  // Steps per second, summed over all processes.
  double rate(double seconds);

 private:
  static constexpr std::chrono::milliseconds kPatience{100};
  [[noreturn]] void serve(int process, Work work) const;
  double& of_process(int process) const;  // seconds to act for, then the measured rate
  void await();

  int processes_, threads_;
  Arena::Plan plan_;
  Arena::Field barrier_memory_, rates_;
  std::unique_ptr<Arena> arena_;
  std::unique_ptr<StepBarrier> barrier_;
  std::unique_ptr<WorkerGroup> group_;  // null: the calling process acts
  std::vector<Work> here_;              // one element, or none
};

}  // namespace shoal::cli
