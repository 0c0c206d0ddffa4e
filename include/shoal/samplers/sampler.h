#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "shoal/agents/agent.h"
#include "shoal/data/samples.h"
#include "shoal/envs/env.h"
#include "shoal/ipc/worker_group.h"
#include "shoal/samplers/env_failure.h"

namespace shoal {

enum class SamplerKind : std::uint8_t {
  kSerial,       // everything in the calling process
  kParallelCpu,  // forked workers step and act, each for its own environments with parameters of
                 // its own, for a whole rollout
  kParallelGpu,  // forked workers step, the calling process acts for all of them in one batch, on
                 // the agent's device
};

struct SamplerOptions {
  SamplerKind kind = SamplerKind::kParallelGpu;
  std::int64_t horizon = 128;  // T: steps of one rollout
  std::int64_t envs = 16;      // B
  // What the first of these is among all of the run, where several samplers, one of each rank, have
  // its environments: seeds, noise and states that are saved go by that.
  std::int64_t first_env = 0;
  int workers = 2;  // processes that step environments; ignored by serial
  // 2: the environments are two halves by turns: one is stepped while actions are chosen for the
  // other (parallel-gpu; the others act in smaller batches, and nothing overlaps). Worth it where
  // neither takes much less time than the other, on cores (or a GPU) of its own.
  int groups = 1;
  // parallel-gpu. 0: actions are chosen for all environments at once, each time when all have taken
  // their step. Otherwise workers go at their own pace: actions are chosen for so many environments
  // (in whole workers) as soon as they are there, or for those that are `dynamic_batch_timeout_us`
  // microseconds after the first, as one batch whose rows may be of different steps. Worth it where
  // environments differ in speed, with more workers than are acted for at once. groups must be 1.
  std::int64_t dynamic_batch = 0;
  std::int64_t dynamic_batch_timeout_us = 500;
  // With `dynamic_batch`. Once this share of the environments has filled its rollout, the others
  // stop after the step they are at, so that no straggler holds up all (Wijmans et al., "DD-PPO",
  // ICLR 2020): see Samples::valid. 1: never. For what learns from rollouts; replays refuse them.
  double preempt_share = 1;
  // An environment whose episode is over is reset in the same step: the next row is the first of
  // its next episode. false: it waits for the end of the rollout, so that no rollout holds two
  // episodes of one environment, and is reset while the caller learns (serial: when the next
  // rollout begins). A lost life waits, too. Until then its steps are invalid: see Samples::valid.
  bool mid_batch_reset = true;
  // Every environment takes 0 to this many random steps before the first rollout, so that episodes
  // do not end in step. For the agent an episode begins after them; Episode counts them.
  std::int64_t decorrelation = 0;
  double discount = 0.99;  // of Episode::discounted_reward; nothing else depends on it
  std::uint64_t seed = 1;  // environment b is seeded from (seed, stream, b), its action noise from
                           // (seed, stream, b, tick)
  Stream stream = Stream::kTrain;
  bool greedy = false;                           // the most likely actions instead of sampled ones
  std::chrono::milliseconds step_limit{60'000};  // a step that takes longer counts as a death
  std::chrono::milliseconds reset_limit{
      300'000};  // likewise a reset or the construction of an environment
  // kRestart: a worker that died is forked anew, and its environments begin new episodes with the
  // next rollout; see Samples::valid for what becomes of this one. Where asynchronous workers
  // act themselves, the rollout that the worker was at is lost as a whole. Serial samplers have no
  // workers: asynchronous ones refuse it, others ignore it.
  OnDeath on_death = OnDeath::kFail;
  // Samples are on the CPU, where the environments write, wherever the agent is: for what goes into
  // a replay.
  bool host_rollouts = false;
  // Is given what repeats the failure whenever an environment throws or does not come back, also
  // while environments are made: before make_sampler(), collect() or save() throws, or before its
  // worker is started anew. An action that is NaN or infinite is no failure of an environment. May
  // be called by another thread, one at a time. What it throws is printed, and changes nothing.
  FailureHandler on_failure = {};
  // For on_failure: memory for the latest actions of all environments, at most 100,000 of each. 0:
  // only those of a rollout are kept, and no states.
  std::size_t action_log_bytes = std::size_t{16} << 20;
  // How often their states are kept, at most; that takes a 200th of the time at most. 0: before
  // every rollout, whatever it takes. An environment whose save() throws ends the keeping of states
  // in its process.
  std::chrono::milliseconds save_period{1'000};
  // For the states of all environments at a time; two of those are kept. No more states are kept
  // once they are larger.
  std::size_t state_log_bytes = std::size_t{64} << 20;
  bool pin = false;                      // bind every worker to a core
  std::vector<std::int64_t> cores = {};  // to these, by turns; empty: the allowed ones
};

// One rollout and the episodes that ended in it. Views: valid until the next collect().
struct Batch {
  const Samples& samples;
  const std::vector<Episode>& episodes;
  const std::vector<std::string>& infos;  // what Episode::info holds
};

// Where the agent process spent its time, in seconds since the sampler was made.
struct SamplerTimes {
  double acting = 0;                // choosing actions (parallel-cpu: valuing what the workers did)
  double stepping = 0;              // environments, in this process (serial)
  double waiting = 0;               // for the environments (parallel-cpu: for all the workers do)
  std::int64_t uploaded_bytes = 0;  // that went from the rows to the agent's device
};

// Steps B environments T times per call and records what happened. Environments go on where the
// last rollout ended. Used from the thread that made it.
class Sampler {
 public:
  virtual ~Sampler() = default;
  // Throws WorkerError if a worker dies, throws or exceeds its limit; WorkerDataError of a worker,
  // and DataError in this process (shoal/core/finite.h), for an observation, a reward or an action
  // that is NaN or infinite, and for an action mask without a legal action. The sampler is unusable
  // after that.
  virtual Batch collect() = 0;
  virtual const SamplerTimes& times() const = 0;

  // Everything that the next rollouts depend on, apart from the agent's parameters, by name, on the
  // CPU: environments, agent's state, the rows that the next rollout looks back at, counters. Call
  // it between two calls of collect(); the last batch ends with it. Costs what the environments'
  // own save() does. Throws as collect().
  //
  // Of environments that do not offer it, "env/<b>" is empty: they begin new episodes in the
  // sampler that goes on. reset_others: here, too, the same ones, and the episodes they were in are
  // given up.
  virtual NamedTensors save(bool reset_others) = 0;
};

// What Sampler::save() of several samplers gave, each with the environments that follow on those of
// the one before (SamplerOptions::first_env), as that of one sampler with all of them; and of such
// a one the part that a sampler of `envs` environments from `first_env` on goes on from.
NamedTensors join_saved(const std::vector<NamedTensors>& all);
NamedTensors part_of_saved(const NamedTensors& all, std::int64_t first_env, std::int64_t envs);

// Forks the workers, so call it from the main thread, before starting threads and before touching
// CUDA. The agent must outlive the sampler; it may be moved to its device afterwards. Throws Error
// for impossible options, before any fork, and WorkerError if a worker fails while it makes its
// environments.
//
// saved: what Sampler::save() gave; the new sampler goes on from there, exactly, if environments,
// agent and seed are the same. Kind, workers, groups and horizon may differ.
std::unique_ptr<Sampler> make_sampler(const EnvFactory& make_env, Agent& agent,
                                      const SamplerOptions& options,
                                      const NamedTensors& saved = {});

}  // namespace shoal
