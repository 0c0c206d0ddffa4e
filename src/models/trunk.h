#pragma once

#include <torch/nn/module.h>

#include <cstdint>
#include <memory>

#include "shoal/models/actor_critic.h"
#include "src/models/mlp_kernel.h"

namespace shoal {

// The layers of a model before its recurrent cell.
class Trunk : public torch::nn::Module {
 public:
  virtual std::int64_t width() const = 0;                           // features of an observation
  virtual at::Tensor forward(const Observations& observation) = 0;  // [N, width] float32

  // Dense trunks act row by row on the CPU, from inputs(), the contiguous input [N, in] float32 of
  // the first layer, and the layers.
  virtual bool by_rows() const { return false; }
  virtual at::Tensor inputs(const Observations&) const { return {}; }
  virtual void add_layers(MlpKernel&) const {}
};

std::shared_ptr<Trunk> make_mlp_trunk(const NamedSpecs& observation, const ModelOptions& options,
                                      at::Generator generator);
std::shared_ptr<Trunk> make_nature_cnn_trunk(const NamedSpecs& observation,
                                             const ModelOptions& options, at::Generator generator);

std::shared_ptr<Trunk> make_multi_input_trunk(const NamedSpecs& observation,
                                              const ModelOptions& options, at::Generator generator);

}  // namespace shoal
