#pragma once

#include <chrono>
#include <memory>
#include <span>
#include <vector>

#include "samplers/collector.h"
#include "samplers/failure_reporter.h"
#include "shoal/ipc/worker_group.h"
#include "shoal/samplers/sampler.h"

// What the samplers share, and their makers.
namespace shoal {

// What a sampler is made from, apart from its agent. Options have been checked.
struct SamplerContext {
  const EnvFactory& make_env;
  EnvSpec spec;  // of every environment
  const SamplerOptions& options;
  const NamedTensors& saved;                           // empty: a new run
  std::vector<std::span<const std::byte>> env_states;  // of it
  std::int64_t first_tick = 0;
  bool lost = false;            // whether another process has had these environments before
  std::int64_t rows_begin = 0;  // what the first of these environments is among all of the run
  // Told of workers that die and are started anew, and where this process steps environments. Must
  // outlive them.
  FailureReporter* reporter = nullptr;
};

// Throws Error for impossible options.
SamplerContext checked_context(const EnvFactory& make_env, const SamplerOptions& options,
                               const NamedTensors& saved);

std::unique_ptr<Sampler> make_lockstep_sampler(const SamplerContext& context, Agent& agent);
std::unique_ptr<Sampler> make_dynamic_sampler(const SamplerContext& context, Agent& agent);
std::unique_ptr<Sampler> make_parallel_cpu_sampler(const SamplerContext& context, Agent& agent);

// How often a waiting process looks for deaths.
inline constexpr std::chrono::milliseconds kPatience{100};

// A worker that is started anew is reported, and its death printed on stderr.
WorkerGroupOptions worker_options(const SamplerContext& context);

// Whether an environment may have to wait for the end of a rollout.
bool may_wait(const SamplerOptions& options);

// The collector of a worker for a group; null if it has no environment there.
std::unique_ptr<Collector> make_collector(const SharedRollout& shared,
                                          const SamplerContext& context, int group, int workers,
                                          int worker, WorkerStatus* status);

inline SharedRollout::Saving saving(bool reset_others) {
  return reset_others ? SharedRollout::kSaveAndReset : SharedRollout::kSave;
}

// Adds the time since `since` to `seconds`; now.
inline std::chrono::steady_clock::time_point count_time(
    double& seconds, std::chrono::steady_clock::time_point since) {
  const auto now = std::chrono::steady_clock::now();
  seconds += std::chrono::duration<double>(now - since).count();
  return now;
}

}  // namespace shoal
