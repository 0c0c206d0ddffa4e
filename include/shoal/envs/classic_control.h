#pragma once

#include "shoal/envs/env.h"

namespace shoal {

// The tasks of classic control with the physics of Gymnasium 1.4: for the same start and actions,
// the same observations, rewards and ends. Each is truncated after `time_limit` steps; throws Error
// unless that is positive. A discrete action that does not exist is an Error; a force beyond its
// bounds is cut to them.
//
// Observations are float32.

// A pole on a cart, pushed left (0) or right (1). Position, velocity, angle, angular velocity. 1 a
// step.
EnvFactory make_cart_pole(int time_limit = 500);

// Two links hanging from a fixed joint, with a torque of -1, 0 or 1 (actions 0, 1, 2) between them.
// Cosine and sine of each angle, both angular velocities. -1 a step until the tip is one link's
// length above the joint.
EnvFactory make_acrobot(int time_limit = 500);

// A car in a valley, pushed left (0), not at all (1) or right (2), too weak to climb out at once.
// Position and velocity. -1 a step until it is on the hill to the right.
EnvFactory make_mountain_car(int time_limit = 200);

// The same with a force in [-1, 1]. 100 on the hill, less a tenth of the square of each action.
EnvFactory make_mountain_car_continuous(int time_limit = 999);

// A pendulum to be swung up and held there with a torque in [-2, 2]. Cosine and sine of its angle
// (0: upright), angular velocity. The reward is a cost: -(angle^2 + 0.1 velocity^2 + 0.001
// torque^2).
EnvFactory make_pendulum(int time_limit = 200);

}  // namespace shoal
