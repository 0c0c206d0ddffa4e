#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "shoal/data/samples.h"
#include "shoal/envs/env.h"

namespace shoal {

struct VectorEnvOptions {
  std::int64_t envs = 1;  // B
  int workers = 0;        // forked processes that step them; 0: the calling process does
  std::vector<std::uint64_t> seeds = {};  // of the first resets, B of them
  // False: an environment whose episode ends is reset in the same step (Gymnasium's SAME_STEP).
  // True: the step returns the final observation, and the next one resets the environment and
  // ignores its action (NEXT_STEP); its reward is 0.
  bool next_step = false;
  std::int64_t rows = 8;  // the tensors of a step stay as they are for the next rows - 1 steps
  bool pin = false;       // bind every worker to a core
  std::chrono::milliseconds step_limit{60'000}, reset_limit{300'000};
};

// B environments that the caller chooses the actions for, in shared memory. Used by the thread that
// made it.
class VectorEnv {
 public:
  // Views of the shared rows, [rows, B, ...]. Row r holds the observation and mask of a step, its
  // action, and its results; the next observation is in row r + 1.
  struct Rows {
    NamedTensors observation;  // of stacked frames the newest one
    NamedTensors action, mask, env_info;
    at::Tensor reward, terminated, truncated;
    at::Tensor began;  // with next_step: the step only began an episode; its infos are zeros
  };

  virtual ~VectorEnv() = default;
  virtual const EnvSpec& spec() const = 0;
  virtual const Rows& rows() const = 0;
  // The row of the newest observations; the caller writes the actions to it.
  virtual std::int64_t row() const = 0;
  // Begins the step whose actions are in row(). Throws Error for a discrete action outside its
  // space; others are not checked.
  virtual void start() = 0;
  // Completes it; row() advances. The results are in row() - 1. Returns the environments whose
  // episodes ended and that were reset (never with next_step). Throws as Sampler::collect().
  virtual std::vector<std::int64_t> finish() = 0;
  // Begins episodes in these environments: their newest observations are overwritten. seeds: one
  // for each of them; nullopt: its random generator goes on. Not between start() and finish().
  // Throws as finish().
  virtual void reset(std::span<const std::int64_t> envs,
                     std::span<const std::optional<std::uint64_t>> seeds) = 0;
  // The newest observations: [B, ...], with stacked frames [B, stack, ...], which is a copy.
  virtual NamedTensors observation() = 0;
  // The observations before the resets of the last step; meaningful for the environments that
  // finish() returned, until the next start().
  virtual NamedTensors final_observation() = 0;
};

// Forks the workers: the rules of make_sampler() apply, and its exceptions.
std::unique_ptr<VectorEnv> make_vector_env(const EnvFactory& make_env,
                                           const VectorEnvOptions& options);

}  // namespace shoal
