#pragma once

#include <torch/nn/module.h>

#include <cstdint>
#include <memory>
#include <string>

#include "shoal/models/actor_critic.h"
#include "shoal/models/flat_mlp.h"

namespace shoal {

// A network whose parameters are views of one tensor, so that a step of Adam, an average over ranks
// and a copy are one pass over memory each.
class QpgNetwork : public torch::nn::Module {
 public:
  // All parameters in order, [size]; a single parameter keeps its shape. Without gradients. Another
  // tensor after move_to().
  const at::Tensor& flat() const { return flat_; }
  // The gradient of a loss [], like flat(); 0 where the loss does not depend on a parameter.
  at::Tensor gradient(const at::Tensor& loss) const;

  void move_to(at::Device device);
  // Moves the parameters towards those of a network of the same kind, and copies its buffers.
  void move_towards(const QpgNetwork& other, const at::Tensor& fraction);
  // Adds parameters and buffers by name; a single parameter is called `name` itself.
  void add_to(NamedTensors& all, const std::string& name) const;

 protected:
  // To be called when all parameters are registered.
  void flatten();

 private:
  at::Tensor flat_;
};

class PolicyNetwork : public QpgNetwork {
 public:
  PolicyNetwork(const FlatMlp& mlp, std::uint64_t seed);
  explicit PolicyNetwork(const std::shared_ptr<ActorCriticModel>& model);
  at::Tensor forward(const Observations& input) const;

 private:
  FlatMlp mlp_;
  at::Tensor parameters_;  // of the MLP
  std::shared_ptr<ActorCriticModel> model_;
};

// The seed of critic k's initial weights. Experiments with adjacent seeds have no critic in common.
std::uint64_t critic_seed(std::uint64_t seed, int k);

// Critics side by side, which share an encoder if there is one.
class CriticNetwork : public QpgNetwork {
 public:
  static constexpr std::int64_t kFeatures = 50;  // of an encoder

  // head: reads the observation, or the encoder's features, and the action.
  CriticNetwork(const FlatMlp& head, int critics, std::uint64_t seed,
                const std::shared_ptr<ActorCriticModel>& encoder = nullptr);
  at::Tensor forward(const Observations& input, const at::Tensor& action) const;  // [critics, N]

 private:
  FlatMlp head_;
  at::Tensor heads_;  // [critics, head_.size()]
  std::shared_ptr<ActorCriticModel> encoder_;
};

}  // namespace shoal
