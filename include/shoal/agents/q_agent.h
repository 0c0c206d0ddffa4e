#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "shoal/agents/agent.h"
#include "shoal/core/option.h"
#include "shoal/models/model_options.h"

namespace shoal {

class ActorCriticModel;  // shoal/models/actor_critic.h

// The network's output for the return of an action.
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
  // The value of an action is the state value plus the action's advantage over the mean advantage
  // (Wang et al., arXiv 1511.06581). Otherwise the network outputs action values directly.
  bool dueling = false;
  ReturnKind returns = ReturnKind::kMean;
  std::int64_t atoms = 51;         // number of fixed returns, or of quantiles
  double v_min = -10, v_max = 10;  // lowest and highest of the fixed returns
  // Noisy networks (Fortunato et al., arXiv 1706.10295, factorised) explore without epsilon: the
  // weights of linear layers are drawn for every rollout and update, with learned means and
  // deviations. Greedy actions use the means.
  bool noisy = false;
  double noise = 0.5;  // the initial deviation is this, divided by the root of the layer's inputs
  // Number of epsilons: environment i has epsilon i, modulo their number. 1: all share one.
  std::int64_t epsilons = 1;
};
OptionList describe(QAgentOptions& options);  // table [dqn]

// Takes a uniformly random legal action with probability epsilon, and the action of the highest
// value otherwise; always the latter if greedy. Also holds the target network, a copy of the online
// network from some updates before (Mnih et al., 2015). Has no agent_info.
class QAgent : public Agent {
 public:
  virtual const QAgentOptions& options() const = 0;

  // Network outputs for each action's return, [N, actions, atoms] float32: its mean (1 atom), the
  // logits of the fixed returns, or the quantiles. returns() has gradients; target_returns() uses
  // the target network and has none.
  virtual at::Tensor returns(const Observations& observation) = 0;
  virtual at::Tensor target_returns(const Observations& observation) = 0;
  // The fixed returns, [atoms]; undefined for other kinds.
  virtual at::Tensor support() const = 0;
  // Means of outputs of returns(), [..., atoms] -> [...].
  virtual at::Tensor means(const at::Tensor& returns) const = 0;
  // The value of each action, [N, actions].
  at::Tensor values(const Observations& observation) { return means(returns(observation)); }
  at::Tensor target_values(const Observations& observation) {
    return means(target_returns(observation));
  }

  // Moves the target network by this fraction towards the online network: 1 makes it a copy.
  virtual void update_target(double share) = 0;
  // Draws new noise for both networks, if they are noisy. Outputs computed before it must not be
  // differentiated afterwards.
  virtual void draw_noise() = 0;

  // The trainable parameters, in a fixed order, and the gradient of a loss [] for each of them.
  virtual std::vector<at::Tensor> learnable() = 0;
  virtual std::vector<at::Tensor> gradients(const at::Tensor& loss) = 0;

  // [epsilons] float32, on the CPU; initially 1. Set it between two rollouts: workers receive it
  // with the parameters.
  virtual at::Tensor epsilon() = 0;
};

// For one discrete action, with or without a mask. The network is an actor-critic model: its policy
// head outputs the returns, or, if dueling, advantages followed by the state value; its value head
// is not used. Throws Error for other actions.
std::unique_ptr<QAgent> make_q_agent(const EnvSpec& spec, const ModelOptions& model,
                                     const QAgentOptions& options, std::uint64_t seed);
// The same with two given models of one kind, whose policy heads have q_output_size() outputs. The
// second one becomes a copy of the first. seed: of the noise.
std::unique_ptr<QAgent> make_q_agent(const EnvSpec& spec, std::shared_ptr<ActorCriticModel> model,
                                     std::shared_ptr<ActorCriticModel> target,
                                     const QAgentOptions& options = {}, std::uint64_t seed = 1);

std::int64_t q_output_size(const EnvSpec& spec, const QAgentOptions& options);

}  // namespace shoal
