#pragma once

#include <torch/nn/modules/linear.h>

#include <memory>

#include "src/models/flat_input.h"
#include "src/models/trunk.h"
#include "src/models/unroll.h"

namespace shoal {

// trunk -> concatenation of features, previous action and previous reward -> LSTM or GRU -> policy
// and value heads.
class RecurrentModel : public ActorCriticModel {
 public:
  // previous: the previous actions that the cell reads; if not empty, it also reads the reward.
  RecurrentModel(std::shared_ptr<Trunk> trunk, const NamedSpecs& previous, std::int64_t policy_size,
                 const ModelOptions& options, const at::Generator& generator);

  ModelOut forward(const ModelIn& in) override;
  NamedSpecs state() const override;
  std::unique_ptr<RecurrentActing> make_recurrent_acting() const override;

  // Inputs of the cell from the previous step.
  std::int64_t extra() const { return sees_previous ? previous.width() + 1 : 0; }
  // [N, extra()], not masked by is_first.
  at::Tensor previous_of(const ModelIn& in) const;

  std::shared_ptr<Trunk> trunk;
  FlatInput previous;
  bool sees_previous;
  CellShape shape;
  CellWeights cell;
  torch::nn::Linear policy{nullptr}, value{nullptr};
};

}  // namespace shoal
