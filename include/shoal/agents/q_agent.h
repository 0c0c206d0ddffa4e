#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "shoal/agents/agent.h"
#include "shoal/core/option.h"
#include "shoal/models/actor_critic.h"

namespace shoal {

// What the network says of an action's return.
enum class ReturnKind : std::uint8_t {
  kMean,         // its mean
  kCategorical,  // probabilities of fixed returns (Bellemare et al., arXiv 1707.06887)
  kQuantile,     // returns of fixed probabilities (Dabney et al., arXiv 1710.10044)
};

inline constexpr std::pair<const char*, ReturnKind> kReturnKindNames[] = {
    {"mean", ReturnKind::kMean},
    {"categorical", ReturnKind::kCategorical},
    {"quantile", ReturnKind::kQuantile}};
inline const auto& names_of(ReturnKind) { return kReturnKindNames; }

struct QAgentOptions {
  // The value of an action is that of the observation, plus the action's advantage over the mean of
  // all (Wang et al., arXiv 1511.06581). Otherwise the network tells the values at once.
  bool dueling = false;
  ReturnKind returns = ReturnKind::kMean;
  std::int64_t atoms = 51;         // fixed returns, or quantiles
  double v_min = -10, v_max = 10;  // the lowest and the highest of the fixed returns
  // Weights of linear layers are drawn anew for every rollout and update, around means and with
  // deviations that are learned (Fortunato et al., arXiv 1706.10295, factorised): exploration
  // without epsilon. Greedy actions are those of the means.
  bool noisy = false;
  double noise = 0.5;  // deviation at the start, times the root of the layer's inputs
  // How many epsilons there are: one for all environments, or one for each of them; for fewer than
  // act, acting throws Error.
  std::int64_t epsilons = 1;
};
OptionList describe(QAgentOptions& options);  // table [dqn]

// Takes the action of the highest value, but with probability epsilon any of those that are legal;
// greedily always the first. Holds the target network, too, which is a copy of the other one as it
// was some updates before (Mnih et al., 2015). Records nothing.
class QAgent : public Agent {
 public:
  virtual const QAgentOptions& options() const = 0;

  // What the networks say of each action's return, [N, actions, atoms] float32: its mean (1 atom),
  // the logits of the fixed returns, or the quantiles. With gradients, and by the target network,
  // without.
  virtual at::Tensor returns(const Observations& observation) = 0;
  virtual at::Tensor target_returns(const Observations& observation) = 0;
  // The fixed returns, [atoms]; undefined for other kinds.
  virtual at::Tensor support() const = 0;
  // The means of such returns, [..., atoms] -> [...].
  virtual at::Tensor means(const at::Tensor& returns) const = 0;
  // The value of each action, [N, actions].
  at::Tensor values(const Observations& observation) { return means(returns(observation)); }
  at::Tensor target_values(const Observations& observation) {
    return means(target_returns(observation));
  }

  // Moves the target network this far towards the other one: 1 makes it a copy.
  virtual void update_target(double share) = 0;
  // New noise for both networks, if they are noisy. What was computed before may not be
  // differentiated after it.
  virtual void draw_noise() = 0;

  // The parameters to learn, in a fixed order, and the gradient of a loss [] for each of them.
  virtual std::vector<at::Tensor> learnable() = 0;
  virtual std::vector<at::Tensor> gradients(const at::Tensor& loss) = 0;

  // [epsilons] float32, on the CPU; 1 at first. Set it between two rollouts: workers get it
  // together with the parameters.
  virtual at::Tensor epsilon() = 0;
};

// For one discrete action, with or without a mask. The network is an actor-critic's: what that
// calls the policy are returns, or advantages and the observation's value behind them; its value is
// not used. Throws Error for other actions.
std::unique_ptr<QAgent> make_q_agent(const EnvSpec& spec, const ModelOptions& model,
                                     const QAgentOptions& options, std::uint64_t seed);
// The same around two models of your own of one kind, whose policy head puts out
// q_output_size() numbers; the second one becomes a copy of the first. seed: of the noise.
std::unique_ptr<QAgent> make_q_agent(const EnvSpec& spec, std::shared_ptr<ActorCriticModel> model,
                                     std::shared_ptr<ActorCriticModel> target,
                                     const QAgentOptions& options = {}, std::uint64_t seed = 1);

std::int64_t q_output_size(const EnvSpec& spec, const QAgentOptions& options);

}  // namespace shoal
