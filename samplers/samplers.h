#pragma once

#include <chrono>
#include <memory>

#include "samplers/collector.h"
#include "shoal/core/worker_group.h"
#include "shoal/samplers/sampler.h"

// What the samplers share, and their makers: options have been checked, `spec` is that of every
// environment.
namespace shoal {

std::unique_ptr<Sampler> make_lockstep_sampler(const EnvFactory& make_env, const EnvSpec& spec,
                                               Agent& agent, const SamplerOptions& options);
std::unique_ptr<Sampler> make_parallel_cpu_sampler(const EnvFactory& make_env, const EnvSpec& spec,
                                                   Agent& agent, const SamplerOptions& options);

// How often a waiting process looks for deaths.
inline constexpr std::chrono::milliseconds kPatience{100};

WorkerGroupOptions worker_options(const SamplerOptions& options);

// The collector of a worker for a group; null if it has no environment there.
std::unique_ptr<Collector> make_collector(const SharedRows& shared, const EnvFactory& make_env,
                                          const SamplerOptions& options, int group, int workers,
                                          int worker, WorkerStatus* status);

// Adds the time since `since` to `seconds`; now.
inline std::chrono::steady_clock::time_point count_time(
    double& seconds, std::chrono::steady_clock::time_point since) {
  const auto now = std::chrono::steady_clock::now();
  seconds += std::chrono::duration<double>(now - since).count();
  return now;
}

}  // namespace shoal
