#pragma once

#include <cstdint>
#include <memory>

#include "algos/qpg/qpg_learner.h"
#include "shoal/algos/algo_spec.h"

namespace shoal {

// What SAC, TD3 and DDPG make of their options.
struct QpgSettings {
  QpgUpdate update;                           // of every update, but for what changes
  std::int64_t batch = 256;                   // steps of one update
  Precision precision = Precision::kFloat32;  // of the networks' products, on the CPU
  bool anneal_learning_rate = false;          // all of them, linearly to 0 over the schedule
  std::int64_t policy_interval = 1;       // updates between two of the policy and of all targets
  double exploration = 1;                 // deviation of the noise once it learns
  double beta_start = 0.4, beta_end = 1;  // of importance weights, over the schedule
  // Of a stochastic policy: learns alpha, so that the mean of -log p becomes target_entropy.
  bool learn_alpha = false;
  double target_entropy = 0, alpha_rate = 0;
};

// Fused on the CPU, by tensor operations elsewhere. name: of the algorithm, in errors.
std::unique_ptr<OffPolicyAlgo> make_qpg_algo(const char* name, QpgAgent& agent, StepReplay& replay,
                                             const QpgSettings& settings, ProcessGroup& ranks);

// The agent of such an algorithm, with layers as run.model has them. Throws Error for another model
// than an MLP.
std::unique_ptr<Agent> make_qpg_agent(const AlgoSpec& algo, const EnvSpec& env,
                                      const RunOptions& run, QpgAgentOptions options);

// Throws Error unless the agent's policy is of this kind.
void require_policy(const char* name, const QpgAgent& agent, bool stochastic);

}  // namespace shoal
