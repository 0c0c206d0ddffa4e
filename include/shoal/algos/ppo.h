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

// What advantages are brought to mean 0 and deviation 1 over.
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
  // The gradient of a minibatch is found in so many pieces, one after the other, of which only one
  // takes up memory. The result is the same, but for rounding.
  int gradient_accumulation = 1;
  double clip = 0.1;      // the probability ratio stays in [1 - clip, 1 + clip]
  double value_clip = 0;  // the new value stays this close to the old one; 0: not clipped
  double value_coef = 0.5;
  double entropy_coef = 0.01;
  double max_grad_norm = 0.5;  // global norm; 0: not clipped
  NormalizeAdvantage normalize_advantage = NormalizeAdvantage::kMinibatch;
  bool anneal_learning_rate = true;  // linearly to 0 over the schedule
  bool anneal_clip = false;          // likewise the clip ranges, that of the value, too
  // For rollouts that an older policy made (asynchronous samplers): advantages and targets are
  // those of V-trace, with the present policy's values, and gae_lambda for its lambda. Minibatches
  // are whole sequences then.
  bool vtrace = false;
  double rho_bar = 1, c_bar = 1;  // where its ratios are cut
  double target_kl = 0;    // stop the passes of a rollout once the mean KL exceeds this; 0: never
  std::uint64_t seed = 1;  // order of the minibatches
  // The environments of all ranks are so many slices, one after the other, and a minibatch takes as
  // many steps of each, in an order of the slice's own: learning does not depend on how many ranks
  // share the slices. 0: one for each rank. A multiple of the number of ranks.
  int slices = 0;
};
OptionList describe(PpoOptions& options);  // table [ppo]

// An agent with state learns from whole sequences, each from the state it had at the beginning of
// the rollout: a minibatch is all steps of some environments. update() throws Error if there are
// fewer of those than minibatches.
//
// With vtrace it is the asynchronous PPO (APPO) of Petrenko et al., Sample Factory, arXiv
// 2006.11751.
//
// With several ranks, each learns from the rollout of its own environments, and all of them take
// the same steps: gradients, normalization and metrics are those of all ranks' steps together. All
// rollouts must have as many environments.
//
// The agent must outlive the algo, and be on its device already; so must ranks.
std::unique_ptr<OnPolicyAlgo> make_ppo(ActorCritic& agent, const PpoOptions& options,
                                       ProcessGroup& ranks = group_of_one());

}  // namespace shoal
