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

// The arguments a sampler is made with, apart from its agent. Options have been checked.
struct SamplerContext {
  const EnvFactory& make_env;
  EnvSpec spec;  // of every environment
  BatchTraits batch;
  const SamplerOptions& options;
  const NamedTensors& saved;                           // empty: a new run
  std::vector<std::span<const std::byte>> env_states;  // in `saved`
  std::int64_t first_tick = 0;
  bool lost = false;            // the previous process of these environments has died
  std::int64_t rows_begin = 0;  // index in the run of the first of these environments
  // Gets the deaths of workers that are restarted, and the place where this process steps
  // environments. Must outlive the workers and collectors.
  FailureReporter* reporter = nullptr;
};

// Throws Error for invalid options.
SamplerContext checked_context(const EnvFactory& make_env, const SamplerOptions& options,
                               const NamedTensors& saved);

// One rollout at a time.
std::unique_ptr<Sampler> make_synchronous_sampler(const SamplerContext& context, Agent& agent);

// The rollouts in which environments are stepped.
using SharedRollouts = std::vector<const SharedRollout*>;

// How often a waiting process checks for dead workers.
inline constexpr std::chrono::milliseconds kPatience{100};

// The death of a worker that is restarted is reported, and printed to stderr.
WorkerGroupOptions worker_options(const SamplerContext& context);

// Whether an environment may have to wait for the end of a rollout, or for its next episode.
bool may_wait(const SamplerOptions& options, const BatchTraits& batch);

// Number of orders: one for each group of environments, or for each free-running worker.
int orders(const SamplerOptions& options);

// The collector of a worker for a group; null if the worker has no environment of it.
std::unique_ptr<Collector> make_collector(const SharedRollout& shared,
                                          const SamplerContext& context, int group, int workers,
                                          int worker, WorkerStatus* status);

// In a worker: carries out an order to step, to reset or to save. Saved states go to `slot` of the
// mailbox.
void carry_out(const SharedRollout::Order& order, Collector& collector,
               const SharedRollouts& rollouts, const Mailbox& mailbox, int slot);

inline Command saving(bool reset_others) {
  return reset_others ? Command::kSaveAndReset : Command::kSave;
}

// The counter to which the agent process adds the time in which environments step.
inline double SamplerTimes::*while_stepping(const SamplerOptions& options) {
  return options.kind == SamplerKind::kSerial ? &SamplerTimes::stepping : &SamplerTimes::waiting;
}

// Adds the time since its last call to a counter. Without counters it reads no clock.
class SplitTimer {
 public:
  explicit SplitTimer(SamplerTimes* times) : times_(times) { restart(); }
  void restart() {
    if (times_ != nullptr) last_ = std::chrono::steady_clock::now();
  }
  void count(double SamplerTimes::*counter) {
    if (times_ == nullptr) return;
    const auto now = std::chrono::steady_clock::now();
    times_->*counter += std::chrono::duration<double>(now - last_).count();
    last_ = now;
  }

 private:
  SamplerTimes* times_;
  std::chrono::steady_clock::time_point last_;
};

inline std::size_t on_cache_lines(std::size_t bytes) { return (bytes + 63) / 64 * 64; }

}  // namespace shoal
