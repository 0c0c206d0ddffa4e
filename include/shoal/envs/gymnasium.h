#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "shoal/envs/env.h"

namespace shoal {

struct GymnasiumOptions {
  std::string kwargs = {};  // arguments of gymnasium.make, as a JSON object: {"gravity": 5.0}
  // Wrappers around the environment, the innermost first: "package.Wrapper" or
  // "package.Wrapper(argument=1)" with literals as arguments. Without a package it is one of
  // gymnasium.wrappers, around a vector environment of gymnasium.wrappers.vector.
  std::vector<std::string> wrappers = {};
  // Numbers in the environment's infos to report; "a/b" is info["a/b"], or else info["a"]["b"].
  // Their arrays are one float32 each, 0 where the info has no such number.
  std::vector<InfoSpec> infos = {};
  // A vector environment for each worker and group: the one of the id's vector_entry_point, or, for
  // "gymnasium:module:callable", what callable(num_envs=N, **kwargs) returns.
  bool vector = false;
  // The Python interpreter whose packages are used; its version must be that of the plugin's build.
  // One per process. Empty: $SHOAL_PYTHON, then the active virtual environment's, then the build's.
  std::string python = {};
  // Time limit for constructing the environment whose spaces are read.
  std::chrono::milliseconds reset_limit{300'000};
};

// Any environment of Python's Gymnasium: "gymnasium:CartPole-v1"; "gymnasium:my_package:MyEnv-v0"
// imports a module first (the working directory is on the module path). An unknown id imports the
// package that its name begins with, if there is one: "gymnasium:my_package/MyEnv-v0" and
// "gymnasium:MiniGrid-Empty-5x5-v0".
//
// Every process with such an environment runs its own interpreter. The leaves of a space become
// fields: Box, Discrete (int64), MultiDiscrete and MultiBinary; Dict and Tuple nest ("camera/left",
// "pair/0"). A part of an observation without a fixed size, such as a Text, is left out
// (EnvSpec::notices); in an action it is an Error. Observations keep their dtype; an unsupported
// dtype becomes the next wider one, or is an Error if there is none (uint64). An array whose dtype
// differs from its space's is converted if no value changes, though float64 is rounded to float32;
// otherwise the step throws Error. A Box action whose bounds differ among its elements is in [-1,
// 1] here and is rescaled if all are finite; otherwise it has no bounds here. All are clipped to
// the environment's. An info "action_mask" beside a Discrete action is the action mask; of other
// infos only `infos` are read, and one that no step of the first episode has is an Error. Seeds are
// cut to 31 bits, which every Python library accepts. save() and load() pickle the environment,
// unless unpickling would construct a new one (EzPickle, e.g. MuJoCo's). render() uses the render
// mode rgb_array.
//
// With `vector`, and for an id that has no entry_point but a vector_entry_point, it is an
// environment of make_batched(). The vector environment resets its environments itself: in the same
// step, or, by default, in the next one (BatchTraits::waits); those that do not are reset by
// Gymnasium's option "reset_mask". If it accepts a single seed only, it gets that of its first
// environment: then samples depend on the number of workers. It cannot be saved or rendered.
//
// "pettingzoo:module" is the same for the agents of parallel environments of PettingZoo, which
// module.parallel_env(**kwargs) returns; "pettingzoo." may be left out in front of the module's
// name. All agents have the same spaces. An agent that leaves a game waits for its end.
//
// The spaces are read in a temporary process. Throws Error if the plugin, Gymnasium or the
// environment is missing, or if no part of a space has a fixed size. Python exceptions arrive with
// their traceback, also from workers. Call it where make_sampler() may be called.
EnvFactory make_gymnasium(const std::string& id, const GymnasiumOptions& options = {});

// The ids in Gymnasium's own registry, without "gymnasium:"; empty without the plugin or Gymnasium.
// Starts Python in a temporary process; call it where make_sampler() may be called.
std::vector<std::string> gymnasium_ids(const GymnasiumOptions& options = {});

}  // namespace shoal
