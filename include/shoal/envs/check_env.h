#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "shoal/envs/env.h"

namespace shoal {

// Progress of one of several trials of random actions.
struct CheckEnvProgress {
  int trial, trials;  // trials are counted from 1
  std::int64_t step, steps;
};

struct CheckEnvOptions {
  std::int64_t steps = 1000;  // random actions per trial; fewer for large observations
  std::uint64_t seed = 1;
  std::chrono::milliseconds step_limit{60'000}, reset_limit{300'000};
  // Returns this program's allocations so far, to detect allocations in step(). Null: not checked.
  std::function<std::int64_t()> allocations = {};
  // Called with a sentence for each property that is unusual but not an error.
  std::function<void(const std::string&)> note = {};
  // Called by the calling thread about ten times a second while a trial runs.
  std::function<void(const CheckEnvProgress&)> progress = {};
};

// Tests an environment for common mistakes: a spec that contradicts itself, arrays whose shape or
// dtype differs from the spec or that are left unwritten, values out of bounds, state shared
// between instances, episodes that depend on more than the seed and the actions, a reset or load()
// that does not restore everything, allocations in steps (if `allocations` is given; not checked
// for Python environments), exceptions, crashes and hangs.
//
// Returns one sentence per mistake; empty if none was found. Every trial plays random actions in
// its own process: call it where make_sampler() may be called.
std::vector<std::string> check_env(const EnvFactory& make_env, const CheckEnvOptions& options = {});

}  // namespace shoal
