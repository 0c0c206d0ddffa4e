#pragma once

#include <chrono>
#include <memory>
#include <span>
#include <vector>

#include "samplers/collector.h"
#include "samplers/failure_reporter.h"
#include "samplers/mailbox.h"
#include "shoal/ipc/worker_group.h"
#include "shoal/samplers/sampler.h"

namespace shoal {

// What a sampler is made from, apart from its agent. Options have been checked.
struct SamplerContext {
  const EnvFactory& make_env;
  EnvSpec spec;  // of every environment
  const SamplerOptions& options;
  const NamedTensors& saved;                           // empty: a new run
  std::vector<std::span<const std::byte>> env_states;  // of it
  std::int64_t first_tick = 0;
  bool lost = false;            // another process, which died, has had these environments before
  std::int64_t rows_begin = 0;  // number of the first of these environments among all of the run
  // Told of workers that die and are restarted, and where this process steps environments. Must
  // outlive them.
  FailureReporter* reporter = nullptr;
};

// Throws Error for impossible options.
SamplerContext checked_context(const EnvFactory& make_env, const SamplerOptions& options,
                               const NamedTensors& saved);

// One rollout at a time.
std::unique_ptr<Sampler> make_synchronous_sampler(const SamplerContext& context, Agent& agent);

// Where environments may be stepped.
using SharedRollouts = std::vector<const SharedRollout*>;

// How often a waiting process looks for deaths.
inline constexpr std::chrono::milliseconds kPatience{100};

// A worker that is restarted is reported, and its death printed on stderr.
WorkerGroupOptions worker_options(const SamplerContext& context);

// Whether an environment may have to wait for the end of a rollout.
bool may_wait(const SamplerOptions& options);

// Groups of environments, or free-running workers: each has an order of its own.
int orders(const SamplerOptions& options);

// The collector of a worker for a group; null if it has no environment there.
std::unique_ptr<Collector> make_collector(const SharedRollout& shared,
                                          const SamplerContext& context, int group, int workers,
                                          int worker, WorkerStatus* status);

// In a worker: carries out an order to step, to reset or to save; what is saved goes to the slot.
void carry_out(const SharedRollout::Order& order, Collector& collector,
               const SharedRollouts& rollouts, const Mailbox& mailbox, int slot);

inline Command saving(bool reset_others) {
  return reset_others ? Command::kSaveAndReset : Command::kSave;
}

// Where the agent process counts the time in which environments step.
inline double SamplerTimes::*while_stepping(const SamplerOptions& options) {
  return options.kind == SamplerKind::kSerial ? &SamplerTimes::stepping : &SamplerTimes::waiting;
}

// Adds the time since `since` to `seconds`; returns now.
inline std::chrono::steady_clock::time_point count_time(
    double& seconds, std::chrono::steady_clock::time_point since) {
  const auto now = std::chrono::steady_clock::now();
  seconds += std::chrono::duration<double>(now - since).count();
  return now;
}

inline std::size_t on_cache_lines(std::size_t bytes) { return (bytes + 63) / 64 * 64; }

}  // namespace shoal
