#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "shoal/agents/agent.h"
#include "shoal/data/samples.h"
#include "shoal/envs/env.h"
#include "shoal/ipc/worker_group.h"
#include "shoal/samplers/env_failure.h"

namespace shoal {

enum class SamplerKind : std::uint8_t {
  kAuto,         // one of the others: see choose_sampler()
  kSerial,       // the calling process acts and steps
  kParallelCpu,  // forked workers act and step: each fills whole rollouts of its own environments
                 // with its own copy of the parameters
  kParallelGpu,  // forked workers step; the calling process acts for all of them in one batch, on
                 // the agent's device
};

inline constexpr std::pair<const char*, SamplerKind> kSamplerKindNames[] = {
    {"auto", SamplerKind::kAuto},
    {"serial", SamplerKind::kSerial},
    {"parallel-cpu", SamplerKind::kParallelCpu},
    {"parallel-gpu", SamplerKind::kParallelGpu}};
inline const auto& names_of(SamplerKind) { return kSamplerKindNames; }
const char* name_of(SamplerKind kind);

struct SamplerOptions {
  SamplerKind kind = SamplerKind::kParallelGpu;
  std::int64_t horizon = 128;  // T: steps per rollout
  std::int64_t envs = 16;      // B
  // Index of the first of these environments among all of the run, where each rank has a sampler of
  // its own. Seeds, noise and saved states depend on the index within the run.
  std::int64_t first_env = 0;
  int workers = 2;  // processes that step environments; ignored by serial. 0: kAuto chooses
  // 2: the environments alternate in two halves: one half steps while actions are chosen for the
  // other (parallel-gpu only; the other kinds act in smaller batches, without overlap). Useful if
  // acting and stepping take similar time and each has its own cores (or a GPU).
  int groups = 1;
  // parallel-gpu only. 0: lock-step: the agent acts once all environments have taken their step.
  // Otherwise dynamic batching: workers run freely, and the agent acts as soon as this many
  // environments (in whole workers) are ready, or `dynamic_batch_timeout_us` microseconds after the
  // first is. The rows of such a batch may be of different steps. Useful if environments differ in
  // speed and there are more workers than one batch covers. groups must be 1.
  std::int64_t dynamic_batch = 0;
  std::int64_t dynamic_batch_timeout_us = 500;
  // With `dynamic_batch`. Once this share of the environments has filled its rollout, the others
  // stop after their current step, so that stragglers do not delay it (Wijmans et al., "DD-PPO",
  // ICLR 2020); see Samples::valid. 1: disabled. For algorithms that learn from rollouts; replays
  // reject such rollouts.
  double preempt_share = 1;
  // An environment whose episode ends is reset in the same step: the next row is the first of its
  // next episode. false: it waits for the end of the rollout, so that no rollout holds two episodes
  // of one environment, and is reset while the caller learns (serial: at the start of the next
  // rollout). A lost life waits, too. The steps until then are invalid; see Samples::valid.
  bool mid_batch_reset = true;
  // Every environment takes 0 to this many random steps before the first rollout, so that episodes
  // do not end simultaneously. For the agent an episode begins after them; Episode counts them.
  std::int64_t decorrelation = 0;
  double discount = 0.99;  // used for Episode::discounted_reward only
  std::uint64_t seed = 1;  // environment b is seeded from (seed, stream, b), its action noise from
                           // (seed, stream, b, tick)
  Stream stream = Stream::kTrain;
  bool greedy = false;  // the most likely actions instead of sampled ones
  // A step of a worker that takes longer counts as its death; the same for a reset and a
  // construction.
  std::chrono::milliseconds step_limit{60'000}, reset_limit{300'000};
  // kRestart: a worker that died is restarted, and its environments begin new episodes with the
  // next rollout; Samples::valid describes the current one. In an asynchronous parallel-cpu sampler
  // the worker's current rollout is lost. Serial samplers have no workers: asynchronous ones reject
  // kRestart, others ignore it.
  OnDeath on_death = OnDeath::kFail;
  // Samples are on the CPU, where the environments write, whatever the agent's device: for replays.
  bool host_rollouts = false;
  // Called with the data that reproduce a failure when an environment throws, hangs or ends its
  // process, also during its construction (except the first, in this process): before
  // make_sampler(), collect() or save() throws, or before the worker is restarted. In a serial
  // sampler, after a fatal signal, it is called in a forked copy of this process. A NaN or infinite
  // action is not a failure of an environment. May be called from another thread, one call at a
  // time. Exceptions of the handler are printed and otherwise ignored.
  FailureHandler on_failure = {};
  // For on_failure: memory for the latest actions of all environments, at most 100,000 of each. 0:
  // only those of the current and the last rollout are kept, and no states.
  std::size_t action_log_bytes = std::size_t{16} << 20;
  // For on_failure: shortest interval between two saves of all environments' states. Saving takes
  // at most 1/200 of the time. 0: before every rollout, whatever the cost. If the save() of an
  // environment throws, its process keeps no more states.
  std::chrono::milliseconds save_period{1'000};
  // For on_failure: memory for one set of states of all environments; two sets are kept. If a set
  // is larger, no more states are kept.
  std::size_t state_log_bytes = std::size_t{64} << 20;
  bool pin = false;                      // bind every worker to a core
  std::vector<std::int64_t> cores = {};  // cores to bind to, round-robin; empty: all allowed ones
};

// One rollout and the episodes that ended in it. Views: valid until the next collect().
struct Batch {
  const Samples& samples;
  const std::vector<Episode>& episodes;
  const std::vector<std::string>& infos;  // names of the numbers in Episode::info
};

// Time spent by the agent process, in seconds since the sampler was constructed.
struct SamplerTimes {
  double acting = 0;    // choosing actions (parallel-cpu, asynchronous: computing values)
  double stepping = 0;  // stepping environments in this process (serial)
  double waiting = 0;   // for environments (parallel-cpu: for the workers' rollouts)
  std::int64_t uploaded_bytes = 0;  // copied from the rollout to the agent's device
};

// Steps B environments T times per call and returns the rollout. Environments continue where the
// last rollout ended. To be used from the thread that constructed it.
class Sampler {
 public:
  virtual ~Sampler() = default;
  // Throws WorkerError if a worker dies, throws or exceeds its limit; a serial sampler throws the
  // environment's own exception. An observation, a reward or an action that is NaN or infinite, or
  // an action mask without a legal action, throws WorkerDataError if a worker found it, and
  // DataError (shoal/core/finite.h) if this process did. The sampler is unusable afterwards.
  virtual Batch collect() = 0;
  virtual const SamplerTimes& times() const = 0;

  // The state that the next rollouts depend on, apart from the agent's parameters, by name, on the
  // CPU: environments, the agent's recurrent state, the rows that the next rollout refers to, and
  // counters. Call it between two calls of collect(); it invalidates the last batch. It costs as
  // much as the environments' own save(). Throws as collect().
  //
  // "env/<b>" is empty for environments that do not support save(): they begin new episodes in the
  // sampler that resumes. reset_others: they begin the same new episodes in this sampler, too, and
  // abandon their current ones.
  virtual NamedTensors save(bool reset_others) = 0;
};

// Joins the results of Sampler::save() of several samplers, whose environments are consecutive
// (SamplerOptions::first_env), into that of one sampler with all of these environments.
// part_of_saved() extracts the part for a sampler of `envs` environments from `first_env` on.
NamedTensors join_saved(const std::vector<NamedTensors>& all);
NamedTensors part_of_saved(const NamedTensors& all, std::int64_t first_env, std::int64_t envs);

// kAuto: the sampler is chosen, see choose_sampler().
// Forks the workers: call it from the main thread, before starting threads and before initializing
// CUDA. The agent must outlive the sampler; it may be moved to its device afterwards. Throws Error
// for invalid options, before any fork, and WorkerError if a worker fails to construct its
// environments; the first environment is constructed in this process, and throws its own exception.
// Without workers a limit is that of a step of all environments together, and holds only while a
// Session, or another guard of signals, exists; it ends the process.
//
// saved: a result of Sampler::save(). The new sampler continues exactly from there if environments,
// agent and seed are the same. Kind, workers, groups and horizon may differ.
std::unique_ptr<Sampler> make_sampler(const EnvFactory& make_env, Agent& agent,
                                      const SamplerOptions& options,
                                      const NamedTensors& saved = {});

}  // namespace shoal
