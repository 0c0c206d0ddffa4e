#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <memory>

#include "shoal/models/actor_critic.h"
#include "src/models/mlp_kernel.h"

namespace shoal {

// The layers of a model in front of its memory.
class Trunk : public torch::nn::Module {
 public:
  virtual std::int64_t width() const = 0;                           // features of an observation
  virtual at::Tensor forward(const Observations& observation) = 0;  // [N, width] float32

  // Dense layers act row by row on the CPU: what goes into the first of them, [N, in] float32 and
  // contiguous, and the layers.
  virtual bool by_rows() const { return false; }
  virtual at::Tensor inputs(const Observations&) const { return {}; }
  virtual void add_layers(MlpKernel&) const {}
};

std::shared_ptr<Trunk> make_mlp_trunk(const NamedSpecs& observation, const ModelOptions& options,
                                      at::Generator generator);
std::shared_ptr<Trunk> make_nature_cnn_trunk(const NamedSpecs& observation,
                                             const ModelOptions& options, at::Generator generator);

}  // namespace shoal
