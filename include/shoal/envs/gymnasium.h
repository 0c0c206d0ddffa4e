#pragma once

#include <chrono>
#include <string>

#include "shoal/envs/env.h"

namespace shoal {

struct GymnasiumOptions {
  std::string kwargs = {};  // of gymnasium.make, as a JSON object: {"gravity": 5.0}
  // The interpreter whose packages are used, of the version that the plugin was built with; one in
  // a process. Empty: $SHOAL_PYTHON, or the active virtual environment's, or the build's.
  std::string python = {};
  // How long it may take to make the environment whose spaces are read.
  std::chrono::milliseconds reset_limit{300'000};
};

// Any environment that Python's Gymnasium makes: "gymnasium:CartPole-v1"; with a module to be
// imported first, "gymnasium:my_package:MyEnv-v0" (modules of the working directory are found,
// too).
//
// Every process that uses one runs an interpreter of its own. A space's parts become fields: Box,
// Discrete (int64), MultiDiscrete and MultiBinary; Dict and Tuple nest ("camera/left", "pair/0").
// Observations keep their dtype; what there is no such dtype for gets the next wider one. Numbers
// of an action whose bounds differ among them are in [-1, 1] here and are rescaled. An info
// "action_mask" beside a Discrete action is the action mask; other infos are not looked at. Seeds
// are cut to 31 bits, which every Python library takes. save() and load() pickle the environment,
// unless it (an EzPickle, such as MuJoCo's) would be made anew by that. render() gives what the
// render mode rgb_array gives.
//
// The spaces are read in a process that ends after it. Throws Error if there is no plugin, no
// Gymnasium, no such environment, or a space without a fixed size; a Python exception comes with
// its traceback, here and out of workers. Call it where make_sampler() may be called.
EnvFactory make_gymnasium(const std::string& id, const GymnasiumOptions& options = {});

}  // namespace shoal
