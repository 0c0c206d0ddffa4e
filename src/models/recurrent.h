#pragma once

#include <torch/torch.h>

#include <memory>

#include "src/models/flat_input.h"
#include "src/models/trunk.h"
#include "src/models/unroll.h"

namespace shoal {

// trunk -> its features, the previous action and the previous reward side by side -> LSTM or GRU ->
// policy and value head.
class RecurrentModel : public ActorCriticModel {
 public:
  // previous: the actions it sees, and the reward, too, if there are any.
  RecurrentModel(std::shared_ptr<Trunk> trunk, const NamedSpecs& previous, std::int64_t policy_size,
                 const ModelOptions& options, const at::Generator& generator);

  ModelOut forward(const ModelIn& in) override;
  NamedSpecs state() const override;
  std::unique_ptr<RecurrentActing> make_recurrent_acting() const override;

  // Numbers of the previous step that the cell sees.
  std::int64_t extra() const { return sees_previous ? previous.width() + 1 : 0; }
  // [N, extra()], without regard to where episodes start.
  at::Tensor previous_of(const ModelIn& in) const;

  std::shared_ptr<Trunk> trunk;
  FlatInput previous;
  bool sees_previous;
  CellShape shape;
  CellWeights cell;
  torch::nn::Linear policy{nullptr}, value{nullptr};
};

}  // namespace shoal
