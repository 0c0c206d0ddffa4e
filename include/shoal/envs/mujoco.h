#pragma once

#include <string>
#include <vector>

#include "shoal/envs/env.h"

namespace shoal {

// Gymnasium's MuJoCo tasks, version 5, in C++ on the same physics (MuJoCo 3.3.7: Todorov, Erez and
// Tassa, "MuJoCo: A physics engine for model-based control", IROS 2012) and the same models:
// Ant-v5, HalfCheetah-v5, Hopper-v5, Humanoid-v5, HumanoidStandup-v5, InvertedDoublePendulum-v5,
// InvertedPendulum-v5, Pusher-v5, Reacher-v5, Swimmer-v5, Walker2d-v5. From the same state, the
// same actions give Gymnasium's observations, rewards, ends, time limits and infos, computed in
// float64 in the same order, then rounded to float32. Initial states come from Gymnasium's
// distributions, but from Shoal's random generator.
//
// Observation: float32 [n], unbounded. Action: a float32 box; numbers out of bounds are clipped for
// the physics, but the control cost uses them unclipped, as in Gymnasium. Infos: float32 numbers
// with Gymnasium's names; rewards are summed over an episode, positions keep the last value.
// reset() sets all infos but the positions to 0. (The humanoids' tendons are left out.) A
// terminated step is never also truncated. save() and load() continue exactly. render() draws
// 480×480 pixels through EGL, without a display, from the model's camera "track" where it has one;
// throws Error where the machine has no EGL, and in a process forked from one that has drawn.
//
// MuJoCo is in a plugin, loaded on first use from $SHOAL_MUJOCO_PLUGIN, lib/shoal_mujoco.so beside
// the program's folder, or the build folder. The models are *.xml files in $SHOAL_MUJOCO_MODELS, or
// in the folder where the build found them.
//
// Throws Error at once for an unknown id (with the nearest known one), a missing plugin or a
// missing model.
EnvFactory make_mujoco(const std::string& id);

// The ids of all tasks; empty without the plugin or the models.
std::vector<std::string> mujoco_ids();

}  // namespace shoal
