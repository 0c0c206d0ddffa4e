#pragma once

#include <ATen/ATen.h>
#include <torch/nn/modules/linear.h>

#include <cstdint>
#include <string>
#include <vector>

#include "shoal/models/actor_critic.h"
#include "src/models/mlp_kernel.h"

namespace shoal {

// Dense layers with tanh, one after the other.
using DenseLayers = std::vector<torch::nn::Linear>;

// Registers a layer for each number of units with `owner`, as "NAME0", "NAME1", ...
DenseLayers make_dense_layers(torch::nn::Module& owner, const std::string& name, std::int64_t in,
                              const std::vector<std::int64_t>& units,
                              const at::Generator& generator);

// x: [N, in] -> [N, out]. tanh_last: the last layer has a tanh, too.
at::Tensor through(const DenseLayers& layers, at::Tensor x, bool tanh_last);
void add_layers(MlpKernel& kernel, const DenseLayers& layers, bool tanh_last);

// Hidden layers with a policy head and a value head, on one trunk or two.
struct DenseHeads {
  DenseLayers trunk, policy, value;

  ModelOut forward(const at::Tensor& features) const;
};
DenseHeads make_dense_heads(torch::nn::Module& owner, std::int64_t in, std::int64_t policy_size,
                            const ModelOptions& options, const at::Generator& generator);

// Throws Error for a layer without units.
void require_units(const std::vector<std::int64_t>& hidden);

}  // namespace shoal
