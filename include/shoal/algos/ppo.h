#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "shoal/agents/agent.h"
#include "shoal/algos/algo.h"
#include "shoal/algos/optimizer.h"
#include "shoal/core/option.h"
#include "shoal/distributed/process_group.h"

namespace shoal {

// The set of steps over which advantages are normalized to mean 0 and standard deviation 1.
enum class NormalizeAdvantage : std::uint8_t { kNone, kRollout, kMinibatch };
inline constexpr std::pair<const char*, NormalizeAdvantage> kNormalizeAdvantageNames[] = {
    {"none", NormalizeAdvantage::kNone},
    {"rollout", NormalizeAdvantage::kRollout},
    {"minibatch", NormalizeAdvantage::kMinibatch}};
inline const auto& names_of(NormalizeAdvantage) { return kNormalizeAdvantageNames; }

// Proximal policy optimization with a clipped surrogate (Schulman et al., arXiv 1707.06347) and
// generalized advantage estimation (Schulman et al., arXiv 1506.02438).
struct PpoOptions {
  double learning_rate = 2.5e-4;
  OptimizerKind optimizer = OptimizerKind::kAdam;
  double optimizer_epsilon = 1e-5;
  double discount = 0.99;  // gamma
  double gae_lambda = 0.95;
  int epochs = 4;       // passes over a rollout
  int minibatches = 4;  // updates in each pass
  // The gradient of a minibatch is accumulated over so many pieces, and activations of only one
  // piece are in memory at a time. The result is the same up to rounding.
  int gradient_accumulation = 1;
  double clip = 0.1;      // clips the probability ratio to [1 - clip, 1 + clip]
  double value_clip = 0;  // largest distance of the new value from the old; 0: not clipped
  double value_coef = 0.5;
  double entropy_coef = 0.01;
  double max_grad_norm = 0.5;  // global norm; 0: not clipped
  NormalizeAdvantage normalize_advantage = NormalizeAdvantage::kMinibatch;
  bool anneal_learning_rate = true;  // linearly to 0 over the schedule
  bool anneal_clip = false;          // the clip ranges, that of the value too, linearly to 0
  // For rollouts of an older policy (asynchronous samplers): advantages and targets are those of
  // V-trace, with values of the current policy and gae_lambda as its lambda. Minibatches are then
  // whole sequences.
  bool vtrace = false;
  double rho_bar = 1, c_bar = 1;  // upper bounds of the importance ratios of V-trace
  // End the epochs of a rollout once the mean KL of an epoch's last minibatch exceeds this; 0:
  // never.
  double target_kl = 0;
  std::uint64_t seed = 1;  // order of the minibatches
  // The environments of all ranks are divided into so many consecutive slices. A minibatch takes
  // the same number of steps from each slice, in the slice's own random order, so learning does not
  // depend on the number of ranks that share the slices. A multiple of the number of ranks; 0: one
  // for each rank.
  int slices = 0;
};
OptionList describe(PpoOptions& options);  // table [ppo]

// An agent with state learns from whole sequences, each from its state at the beginning of the
// rollout: a minibatch is all steps of some environments. update() throws Error if there are fewer
// environments than minibatches.
//
// With vtrace this is asynchronous PPO (APPO) of Petrenko et al., Sample Factory, arXiv 2006.11751.
//
// With several ranks, each learns from the rollout of its own environments. Gradients,
// normalization and metrics are over the steps of all ranks, so all ranks make the same update. All
// rollouts must have the same number of environments.
//
// Throws Error for options that contradict each other, such as vtrace with advantages normalized
// over the rollout. The agent must be on its device already. The agent and ranks must outlive the
// algorithm.
std::unique_ptr<OnPolicyAlgo> make_ppo(ActorCritic& agent, const PpoOptions& options,
                                       ProcessGroup& ranks = group_of_one());

}  // namespace shoal
