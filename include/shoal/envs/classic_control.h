#pragma once

#include "shoal/envs/env.h"

namespace shoal {

// Classic-control tasks with the physics of Gymnasium 1.4: for the same start and actions, the same
// observations, rewards and ends. Each is truncated after `time_limit` steps; throws Error unless
// that is positive. An invalid discrete action throws Error; a force out of bounds is clipped.
//
// Observations are float32.

// A pole on a cart, pushed left (0) or right (1). Observation: position, velocity, angle, angular
// velocity. Reward: 1 per step.
EnvFactory make_cart_pole(int time_limit = 500);

// Two links hanging from a fixed joint; actions 0, 1, 2 apply a torque of -1, 0 or 1 between them.
// Observation: cosine and sine of each angle, both angular velocities. Reward: -1 per step until
// the tip is one link's length above the joint.
EnvFactory make_acrobot(int time_limit = 500);

// An underpowered car in a valley, pushed left (0), not at all (1) or right (2). Observation:
// position and velocity. Reward: -1 per step until the car is on the right hill.
EnvFactory make_mountain_car(int time_limit = 200);

// The same with a force in [-1, 1]. Reward: 100 on the hill, minus 0.1 action^2 per step.
EnvFactory make_mountain_car_continuous(int time_limit = 999);

// A pendulum to swing up and balance with a torque in [-2, 2]. Observation: cosine and sine of the
// angle (0: upright), angular velocity. Reward: -(angle^2 + 0.1 velocity^2 + 0.001 torque^2).
EnvFactory make_pendulum(int time_limit = 200);

}  // namespace shoal
