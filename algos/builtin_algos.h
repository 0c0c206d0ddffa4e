#pragma once

#include <memory>

#include "shoal/algos/algo_spec.h"

// The algorithms of this library. Each function is defined in the file of its algorithm.
namespace shoal {

std::unique_ptr<AlgoSpec> ppo_spec();
std::unique_ptr<AlgoSpec> a2c_spec();
std::unique_ptr<AlgoSpec> impala_spec();
std::unique_ptr<AlgoSpec> dqn_spec();
std::unique_ptr<AlgoSpec> r2d1_spec();
std::unique_ptr<AlgoSpec> ddpg_spec();
std::unique_ptr<AlgoSpec> td3_spec();
std::unique_ptr<AlgoSpec> sac_spec();

}  // namespace shoal
