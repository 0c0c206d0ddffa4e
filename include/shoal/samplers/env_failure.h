#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "shoal/core/rng.h"
#include "shoal/data/samples.h"
#include "shoal/envs/env.h"
#include "shoal/ipc/worker_group.h"

namespace shoal {

// An environment that has thrown, or during whose call a process died or exceeded its limit, and
// what repeats that: where its kept steps begin, and all actions since.
struct EnvFailure {
  std::string error = {};
  std::int64_t env = -1;  // b, among all environments of the run
  Stream stream = Stream::kTrain;
  std::uint64_t env_seed = 0;  // EnvContext::seed
  std::int64_t step = 0;       // that failed, counted as in WorkerError
  // The call that failed; a reset in a step is one, too.
  WorkerStatus::Phase phase = WorkerStatus::kStepping;
  std::int64_t begin = 0;  // the first kept step
  // The steps begin after a reset with this seed, or else with a state of Env::save(). Without
  // either, the failure cannot be repeated.
  std::optional<std::uint64_t> seed = {};
  std::vector<std::byte> state = {};
  // After that reset: SamplerOptions::decorrelation, if its steps were taken, and
  // Env::statistics().
  std::int64_t random_steps = 0;
  std::vector<std::byte> statistics = {};
  // [N, ...]: of the steps since. in_step: the last one is the step that failed, or whose reset
  // did, and `observation` is what the run saw before it. Otherwise a reset or a save() after all
  // of them failed.
  NamedTensors actions = {};
  bool in_step = false;
  NamedTensors observation = {};

  // The environment could not be made, or failed in that reset or the random steps after it.
  bool at_beginning() const {
    return phase == WorkerStatus::kConstructing ||
           (seed && !in_step && steps() == 0 && phase != WorkerStatus::kSaving);
  }
  bool repeatable() const { return seed.has_value() || !state.empty(); }
  std::int64_t steps() const { return actions.empty() ? 0 : actions[0].size(0); }
};

using FailureHandler = std::function<void(const EnvFailure&)>;

// Repeats a failure with an environment of its own, in the calling thread. What the environment
// throws is passed on, and its numbers that are not finite are a DataError.
class FailureReplay {
 public:
  // Makes the environment. Throws Error if the failure is not repeatable(), or if the environment
  // takes other actions than the one that failed. The failure must outlive the replay.
  FailureReplay(const EnvFactory& make_env, const EnvFailure& failure);
  ~FailureReplay();
  FailureReplay(const FailureReplay&) = delete;
  FailureReplay& operator=(const FailureReplay&) = delete;

  // The reset, or the saved state.
  void begin();
  // Steps before the one that failed; step() takes the next of them.
  std::int64_t steps_before() const;
  void step();
  // Before the step that failed: whether the environment has come to the observation that the run
  // had. Empty: the run's is not known.
  std::optional<bool> same_observation() const;
  // The step that failed, or the reset or save(), with what comes between the steps before and that
  // call. about_to_fail(): right before the call. Returns if it does not fail this time; a failure
  // at_beginning() has come before, in the constructor or in begin().
  void fail(const std::function<void()>& about_to_fail = [] {});

  Env& env();
  NamedTensors observation() const;  // the newest, a copy; unspecified after a state was loaded

 private:
  struct Place;
  StepOut out();
  void reset(std::optional<std::uint64_t> seed);
  void reset_and_check();
  void take(ArraysIn action);
  void take_next();
  void check_observations(bool acted_on) const;
  void check_rewards() const;

  const EnvFailure& failure_;
  std::unique_ptr<Place> place_;
  std::unique_ptr<Env> env_;
  std::int64_t taken_ = 0;
  bool over_ = false;  // the episode is, and its reset is to come
  bool has_observation_ = false;
};

}  // namespace shoal
