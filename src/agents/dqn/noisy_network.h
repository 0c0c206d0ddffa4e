#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "shoal/core/rng.h"
#include "shoal/models/actor_critic.h"

namespace shoal {

// A model whose linear layers may be noisy: each weight is mean + deviation * noise, the noise of a
// layer being the outer product of two vectors, each sign(x) sqrt(|x|) of a normal x (Fortunato et
// al., arXiv 1706.10295, equations 10 and 11).
//
// The model itself knows nothing of it: its parameters are overwritten with what was drawn. They
// are linear in mean and deviation, so that a gradient for them is one for the mean, and times the
// noise one for the deviation.
class NoisyNetwork {
 public:
  // deviation: times the root of a layer's inputs; 0: there is no noise.
  NoisyNetwork(std::shared_ptr<ActorCriticModel> model, double deviation);

  ActorCriticModel& model() { return *model_; }
  const ActorCriticModel& model() const { return *model_; }
  bool noisy() const { return !layers_.empty(); }

  void draw(Rng& rng);
  // Writes the model's parameters: with the noise that was drawn last, or without.
  void use(bool noise);

  // Means, deviations and other parameters, by name; buffers; the noise.
  NamedTensors parameters();
  // Means, deviations and other parameters; the gradients of a loss for them.
  std::vector<at::Tensor> learnable() const;
  std::vector<at::Tensor> gradients(const at::Tensor& loss) const;

  // Moves this one towards another of the same kind: 1 makes it a copy, but for the noise.
  void move_towards(const NoisyNetwork& other, double share);
  void to(at::Device device);

 private:
  // A parameter of a linear layer.
  struct Noisy {
    std::string name;
    at::Tensor used;             // the model's own
    at::Tensor mean, deviation;  // what is learned
    std::size_t layer;
    at::Tensor noise(const NoisyNetwork& network) const;
  };
  struct Layer {
    at::Tensor in, out;  // [inputs], [outputs]: the vectors of its noise
  };

  std::shared_ptr<ActorCriticModel> model_;
  std::vector<Noisy> noisy_;
  std::vector<Layer> layers_;
  std::vector<std::string> plain_names_;
  std::vector<at::Tensor> plain_;  // parameters without noise
};

}  // namespace shoal
