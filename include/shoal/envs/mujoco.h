#pragma once

#include <string>
#include <vector>

#include "shoal/envs/env.h"

namespace shoal {

// Gymnasium's MuJoCo tasks, version 5, in C++ on the same physics (MuJoCo 3.3.7: Todorov, Erez and
// Tassa, "MuJoCo: A physics engine for model-based control", IROS 2012) and the same models:
// Ant-v5, HalfCheetah-v5, Hopper-v5, Humanoid-v5, InvertedDoublePendulum-v5, InvertedPendulum-v5,
// Pusher-v5, Reacher-v5, Swimmer-v5, Walker2d-v5. From the same state, the same actions lead to
// Gymnasium's observations, rewards, ends, time limits and infos, computed in float64 in the same
// order, then rounded to float32. Where an episode starts is drawn from Gymnasium's distributions,
// by our own generator.
//
// Observation: float32 [n], unbounded. Action: a box of float32; numbers beyond its bounds act like
// the bounds but cost what they are, as in Gymnasium. Infos: float32 numbers under Gymnasium's
// names; those of rewards are summed over an episode, of positions the last one is kept. In reset()
// all but the positions are 0. (Humanoid's tendons are left out.) A step that terminates is never
// truncated, too. save() and load() continue exactly. There are no pictures.
//
// MuJoCo is a library of its own, loaded when first used by a plugin: $SHOAL_MUJOCO_PLUGIN, or
// lib/shoal_mujoco.so beside the program's folder, or where it was built. The models are *.xml
// files in $SHOAL_MUJOCO_MODELS, or where the build found them.
//
// Throws Error for an unknown id (naming the nearest known one), a missing library or model, at
// once: nothing of this is left to workers.
EnvFactory make_mujoco(const std::string& id);

// The ids of all tasks; empty if there is no plugin, or there are no models.
std::vector<std::string> mujoco_ids();

}  // namespace shoal
