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

// A failure of an environment: a call threw, exceeded its limit, or ended the process. Holds the
// data that reproduce it: the beginning of the kept steps, and all actions since.
struct EnvFailure {
  std::string error = {};
  std::int64_t env = -1;  // b, among all environments of the run
  Stream stream = Stream::kTrain;
  std::uint64_t env_seed = 0;  // EnvContext::seed
  std::int64_t step = 0;       // the step that failed, counted as in WorkerError
  // The call that failed. A reset within a step is a call of its own.
  WorkerStatus::Phase phase = WorkerStatus::kStepping;
  std::int64_t begin = 0;  // the first kept step
  // The kept steps begin after a reset with this seed, or else with a state of Env::save(). Without
  // either, the failure cannot be reproduced.
  std::optional<std::uint64_t> seed = {};
  std::vector<std::byte> state = {};
  // After that reset: SamplerOptions::decorrelation, if random steps followed (otherwise 0), and
  // Env::statistics().
  std::int64_t random_steps = 0;
  std::vector<std::byte> statistics = {};
  // [N, ...]: the actions of the kept steps. in_step: the last step, or the reset within it,
  // failed, and `observation` is the one that the run saw before it. Otherwise a reset or a save()
  // after all of these steps failed.
  NamedTensors actions = {};
  bool in_step = false;
  NamedTensors observation = {};

  // The environment failed in its constructor, in that reset, or in a random step after it.
  bool at_beginning() const {
    return phase == WorkerStatus::kConstructing ||
           (seed && !in_step && steps() == 0 && phase != WorkerStatus::kSaving);
  }
  bool repeatable() const { return seed.has_value() || !state.empty(); }
  std::int64_t steps() const { return actions.empty() ? 0 : actions[0].size(0); }
};

using FailureHandler = std::function<void(const EnvFailure&)>;

// Reproduces a failure with a new environment, in the calling thread. Exceptions of the environment
// propagate. An observation or a reward that is not finite, or an action mask without a legal
// action, throws DataError.
class FailureReplay {
 public:
  // Constructs the environment. Throws Error if the failure is not repeatable(), or if the actions
  // of the environment have another shape than those of the failure. The failure must outlive the
  // replay.
  FailureReplay(const EnvFactory& make_env, const EnvFailure& failure);
  ~FailureReplay();
  FailureReplay(const FailureReplay&) = delete;
  FailureReplay& operator=(const FailureReplay&) = delete;

  // Resets the environment, or loads the saved state.
  void begin();
  // Number of steps before the one that failed; step() takes the next of them.
  std::int64_t steps_before() const;
  void step();
  // To be called before the step that failed: whether the environment has reached the same
  // observation as the run. Empty: an observation is not known.
  std::optional<bool> same_observation() const;
  // Takes the step that failed, or makes the reset() or save() that did, with the calls that lead
  // to it. about_to_fail() is called right before it. Returns if it does not fail this time. A
  // failure at_beginning() comes earlier, in the constructor or in begin().
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
  bool over_ = false;  // the episode is over, and its reset is pending
  bool has_observation_ = false;
};

}  // namespace shoal
