#pragma once

#include <cstdint>
#include <memory>

#include "shoal/ipc/trajectory_ring.h"
#include "shoal/samplers/sampler.h"

namespace shoal {

struct AsyncOptions {
  // Rollouts that are being written, wait, or are learned from; 0: as many as there are writers,
  // and two more.
  int slots = 0;
  // Batches by which the policy that made a rollout may lie behind the one that is to learn from
  // it.
  std::int64_t max_lag = std::numeric_limits<std::int64_t>::max();
  // Older ones. kDrop leaves gaps, which replays refuse, and needs max_lag >= publish_interval - 1.
  StaleRollouts stale = StaleRollouts::kUse;
  // Once sampling has run so far ahead that no slot is free, it rests until everything that waits
  // has been learned from (TrajectoryRingOptions::drain).
  bool drain = false;
  std::int64_t publish_interval = 1;  // batches from which is learned between two new policies
};

// Samples while the caller learns. Its options are those of make_sampler(), and say who acts:
//
//   kSerial       a thread of this process acts, and steps all environments
//   kParallelGpu  a thread of this process acts, on the CPU so far; forked workers step
//   kParallelCpu  every worker acts for its own environments, with parameters of its own. Rollouts
//                 are those of one worker each, of B = envs / workers environments
//
// Rollouts lie in slots in shared memory, and are handed over without being copied
// (TrajectoryRing). collect() gives the next one, as soon as there is one, of the oldest first;
// what it gave before goes back to the writers. It also publishes the parameters that the agent has
// by then: those who act take the newest ones when they begin a rollout. Samples::policy_version is
// the number of collect()s before the one that published its policy; versions_behind() the lag.
//
// agent: it learns, and values; see make_sampler(). actor: another agent, made in the same way, of
// which those who act use copies, or which the thread uses, on the device where it is at the first
// collect(); nobody else may touch it from then on until the sampler is gone. Both must outlive the
// sampler.
//
// Nothing is promised about the order in which rollouts of several workers come. What one worker
// does depends on the seed and on the parameters it finds, as elsewhere. Environments are not
// saved: save() gives what a sampler needs to begin new episodes in all of them.
//
// Throws as make_sampler(), and Error if the workers of kParallelCpu cannot have equally many
// environments. collect() throws WorkerError as any other, and what the acting thread has thrown.
class AsyncSampler : public Sampler {
 public:
  // Batches learned from between the policy that made the last rollout, and now.
  virtual std::int64_t versions_behind() const = 0;
  virtual RingCounts counts() const = 0;
  virtual std::int64_t restarts() const = 0;  // workers that were started anew so far
};

std::unique_ptr<AsyncSampler> make_async_sampler(const EnvFactory& make_env, Agent& agent,
                                                 Agent& actor, const SamplerOptions& options,
                                                 const AsyncOptions& async = {},
                                                 const NamedTensors& saved = {});

}  // namespace shoal
