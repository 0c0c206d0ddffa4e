#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "shoal/envs/env.h"

namespace shoal {

// Random actions taken in one of several trials.
struct CheckEnvProgress {
  int trial, trials;  // trials are counted from 1
  std::int64_t step, steps;
};

struct CheckEnvOptions {
  std::int64_t steps = 1000;  // random actions in each trial; fewer where observations are large
  std::uint64_t seed = 1;
  std::chrono::milliseconds step_limit{60'000}, reset_limit{300'000};
  // How often this program has asked for memory, so that it can be told whether step() does. Null:
  // not looked at.
  std::function<std::int64_t()> allocations = {};
  // Called with a sentence for each thing that is unusual, but no mistake.
  std::function<void(const std::string&)> note = {};
  // Called about ten times a second while environments are played, by the calling thread.
  std::function<void(const CheckEnvProgress&)> progress = {};
};

// Looks for what a badly written environment does wrong: a spec that contradicts itself, arrays of
// another shape or dtype than it says or left unwritten, values outside their bounds, state shared
// between instances, episodes that differ but not by the seed, randomness that no seed decides, a
// reset or a saved state that does not bring everything back, memory allocated at every step (not
// of environments written in Python), exceptions, crashes and hangs.
//
// Returns a sentence for each mistake, and none for an environment without. Every trial plays
// random actions in a process of its own: call it where make_sampler() may be called.
std::vector<std::string> check_env(const EnvFactory& make_env, const CheckEnvOptions& options = {});

}  // namespace shoal
