#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "shoal/envs/env.h"

namespace shoal {

// Destination of a step of N environments, in the shared rows. Each pointer is to the array of the
// first environment; those of the others follow without gaps. Every call must write every element,
// apart from the exceptions below.
struct BatchOut {
  ArraysOut observation;
  ArraysOut info;        // in the order of EnvSpec::info
  bool* mask = nullptr;  // one flag per action; null if the spec has no action mask
  float* reward = nullptr;
  bool *terminated = nullptr, *truncated = nullptr;
  // Written only for environments whose episode ended in this step.
  ArraysOut final_observation;
  bool* final_mask = nullptr;
  // Null unless BatchTraits::waits. True: the next episode has not begun yet. `observation` and
  // `mask` are not read then, and the next step ignores this environment's action.
  bool* waits = nullptr;
};

// N environments of one kind that are stepped together, by one thread: a simulator that is a batch
// itself costs no loop over environments. It does not depend on torch, allocates nothing in step(),
// and shares no state with other instances.
class BatchEnv {
 public:
  virtual ~BatchEnv() = default;
  // The spec of one environment; it does not depend on N.
  virtual const EnvSpec& spec() const = 0;
  virtual BatchTraits traits() const { return {.multiple = 1}; }

  // Begins a new episode in every environment, and writes its first observation and mask, nothing
  // else. seeds: one for each environment; a simulator with a single generator takes the first
  // one. Empty: the generators continue.
  virtual void reset(std::span<const std::uint64_t> seeds, const BatchOut& out) = 0;
  // Takes an action in every environment; `action` points to those of the first one. An
  // environment whose episode ends begins the next one in the same step, and `observation` is its
  // first, unless it waits. To name the environment of an error, throw BatchEnvError.
  virtual void step(ArraysIn action, const BatchOut& out) = 0;

  // Optional, for all environments or none, and not with BatchTraits::waits: the complete state of
  // one environment, as Env::save() and load(). load() may be the first call.
  virtual bool save(std::int64_t /*env*/, std::vector<std::byte>&) const { return false; }
  virtual bool load(std::int64_t /*env*/, std::span<const std::byte>) { return false; }
};

// An error of one environment of a batch, counted from 0.
class BatchEnvError : public std::runtime_error {
 public:
  BatchEnvError(std::int64_t in_env, const std::string& text)
      : std::runtime_error(text), env(in_env) {}
  const std::int64_t env;
};

// Identifies the environments to construct.
struct BatchContext {
  std::span<const std::uint64_t> seeds;  // EnvContext::seed of each
  std::int64_t first = 0;                // EnvContext::index of the first one
  Stream stream = Stream::kTrain;

  std::int64_t envs() const { return std::ssize(seeds); }
};

using BatchEnvFactory = std::function<std::unique_ptr<BatchEnv>(const BatchContext&)>;

// A factory of environments that a sampler steps in batches: every process, and every group of
// environments in it (SamplerOptions::groups), constructs one BatchEnv. Elsewhere an environment is
// a batch of its own, e.g. in check_env(), which throws Error if BatchTraits::multiple is above 1.
// In a wrapper the batch is still stepped as a whole, but its arrays are copied; wrappers that take
// several steps, or end episodes, throw Error.
//
// Samplers require mid_batch_reset, and no decorrelation.
EnvFactory make_batched(BatchEnvFactory make_batch);

}  // namespace shoal
