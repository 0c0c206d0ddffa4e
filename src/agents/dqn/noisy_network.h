#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "shoal/core/rng.h"
#include "shoal/models/actor_critic.h"

namespace shoal {

// A model whose linear layers may be noisy: each weight is mean + deviation * noise. The noise of a
// layer is the outer product of two vectors of sign(x) sqrt(|x|) for normal x (Fortunato et al.,
// arXiv 1706.10295, equations 10 and 11).
//
// The parameters of the model itself are overwritten with the drawn weights. These are linear in
// mean and deviation, so their gradient is that of the mean, and times the noise that of the
// deviation.
class NoisyNetwork {
 public:
  // deviation: the initial one is this, divided by the root of a layer's inputs; 0: no noise.
  NoisyNetwork(std::shared_ptr<ActorCriticModel> model, double deviation);

  ActorCriticModel& model() { return *model_; }
  const ActorCriticModel& model() const { return *model_; }
  bool noisy() const { return !layers_.empty(); }

  void draw(Rng& rng);
  // To be called when learnable() or parameters() have been written.
  void changed() { in_use_ = InUse::kNeither; }
  // Makes the model's parameters those with the latest noise, or those without. Returns whether
  // they were others before.
  bool use(bool noise);

  // The parameters and buffers of the model, as use() left them, by name.
  NamedTensors weights() const;
  // Means, deviations, other parameters, buffers and the noise, by name.
  NamedTensors parameters();
  // Means, deviations and other parameters, and the gradients of a loss for them.
  std::vector<at::Tensor> learnable() const;
  std::vector<at::Tensor> gradients(const at::Tensor& loss) const;

  // Moves this network by a fraction towards another of the same kind: 1 makes it a copy, except
  // for the noise.
  void move_towards(const NoisyNetwork& other, double share);
  void to(at::Device device);

 private:
  // A parameter of a linear layer.
  struct Noisy {
    std::string name;
    at::Tensor used;             // the model's parameter
    at::Tensor mean, deviation;  // learned
    std::size_t layer;
  };
  struct Layer {
    at::Tensor in, out;  // [inputs], [outputs]: noise vectors
  };
  enum class InUse : std::uint8_t { kNeither, kNoise, kMeans };

  std::shared_ptr<ActorCriticModel> model_;
  std::vector<Noisy> noisy_;
  std::vector<Layer> layers_;
  std::vector<std::string> plain_names_;
  std::vector<at::Tensor> plain_;  // parameters without noise
  InUse in_use_ = InUse::kNeither;
};

}  // namespace shoal
