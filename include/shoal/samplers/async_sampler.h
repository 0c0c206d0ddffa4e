#pragma once

#include <cstdint>
#include <memory>

#include "shoal/ipc/trajectory_ring.h"
#include "shoal/samplers/sampler.h"

namespace shoal {

struct AsyncOptions {
  // Rollouts being written, waiting, or being learned from; 0: the number of writers plus two.
  int slots = 0;
  // Largest policy lag of a rollout, in updates (batches learned from).
  std::int64_t max_lag = std::numeric_limits<std::int64_t>::max();
  // Treatment of rollouts with a larger lag. kDrop leaves gaps, which replays reject, and requires
  // max_lag >= publish_interval - 1.
  StaleRollouts stale = StaleRollouts::kUse;
  // If no slot is free, sampling pauses until all waiting rollouts have been learned from
  // (TrajectoryRingOptions::drain).
  bool drain = false;
  std::int64_t publish_interval = 1;  // batches between two publications of the parameters
};

// Samples while the caller learns. The options are those of make_sampler(); `kind` selects where
// the agent acts:
//
//   kSerial       a thread of this process acts and steps all environments
//   kParallelGpu  a thread of this process acts, on the actor's device; forked workers step
//   kParallelCpu  every worker acts for its own environments, with its own copy of the parameters.
//                 A rollout is that of one worker, of B = envs / workers environments
//
// Rollouts are passed in slots of shared memory, without copies (TrajectoryRing). collect() waits
// for the next rollout, oldest first, and returns the slot of the previous one to the writers. It
// also publishes the agent's current parameters; a writer takes the newest ones when it begins a
// rollout. Samples::policy_version is the number of collect()s before the one that published its
// policy; versions_behind() is the lag.
//
// agent: learns, and computes values; see make_sampler(). actor: a second agent, constructed in the
// same way. Workers act with copies of it. The acting thread uses it directly, on the device where
// it is at the first collect(); from then on nothing else may touch it until the sampler is
// destroyed. Both must outlive the sampler.
//
// The order of the rollouts of different workers is unspecified. The trajectory of one worker
// depends on the seed and on the parameters it finds, as in other samplers. Environments are not
// saved, and reset_others is ignored: a sampler that resumes from save() begins new episodes in all
// of them. kAuto is kParallelGpu. SamplerTimes count neither stepping nor uploaded bytes.
//
// Throws as make_sampler(), and Error if envs is not divisible by the workers of kParallelCpu.
// collect() throws WorkerError as other samplers do, and rethrows exceptions of the acting thread.
class AsyncSampler : public Sampler {
 public:
  // Policy lag of the last rollout, in batches learned from.
  virtual std::int64_t versions_behind() const = 0;
  virtual RingCounts counts() const = 0;
  virtual std::int64_t restarts() const = 0;  // workers restarted so far
};

std::unique_ptr<AsyncSampler> make_async_sampler(const EnvFactory& make_env, Agent& agent,
                                                 Agent& actor, const SamplerOptions& options,
                                                 const AsyncOptions& async = {},
                                                 const NamedTensors& saved = {});

}  // namespace shoal
