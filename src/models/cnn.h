#pragma once

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include <memory>

#include "shoal/data/samples.h"
#include "src/models/cnn_layers.h"

namespace shoal {

// Convolutions, with ReLU after each of them, and a layer of features with ReLU. Bytes are divided
// by the highest value of their spec; other numbers are read as they are.
class Cnn : public torch::nn::Module {
 public:
  virtual at::Tensor forward(const Observed& picture) = 0;  // [N, features] float32
};
std::shared_ptr<Cnn> make_cnn(const ArraySpec& picture, const ModelOptions& options,
                              const at::Generator& generator);

}  // namespace shoal
