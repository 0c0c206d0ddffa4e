#include "src/models/recurrent.h"

#include <ATen/ATen.h>
#include <torch/utils.h>

#include "shoal/core/error.h"
#include "src/models/layers.h"
#include "src/models/models.h"

namespace shoal {

RecurrentModel::RecurrentModel(std::shared_ptr<Trunk> layers, const NamedSpecs& actions,
                               std::int64_t policy_size, const ModelOptions& options,
                               const at::Generator& generator)
    : trunk(register_module("trunk", std::move(layers))),
      previous(actions),
      sees_previous(!actions.empty()),
      shape{options.memory, options.memory_size} {
  const auto units = shape.units, rows = shape.gates() * units;
  auto weight = [&](const char* name, std::int64_t columns) {
    auto w = at::empty({rows, columns});
    make_orthogonal(w, 1, generator);
    return register_parameter(name, w);
  };
  cell.weight_ih = weight("memory_weight_ih", trunk->width() + extra());
  cell.weight_hh = weight("memory_weight_hh", units);
  cell.bias_ih = register_parameter("memory_bias_ih", at::zeros({rows}));
  cell.bias_hh = register_parameter("memory_bias_hh", at::zeros({rows}));
  if (shape.kind == MemoryKind::kLstm) {
    // The forget gate starts open (Gers et al., "Learning to forget", 2000).
    torch::NoGradGuard no_grad;
    cell.bias_ih.narrow(0, units, units).fill_(1);
  }
  auto head = [&](const char* name, std::int64_t out, double gain) {
    return register_module(name, initialised(torch::nn::Linear(units, out), gain, generator));
  };
  policy = head("policy_head", policy_size, 0.01);
  value = head("value_head", 1, 1.0);
}

NamedSpecs RecurrentModel::state() const {
  return {{"memory", ArraySpec{.shape = {shape.parts(), shape.units}}}};
}

at::Tensor RecurrentModel::previous_of(const ModelIn& in) const {
  Observations actions;
  for (const auto& [name, action] : in.previous_action) actions.add(name, {action, {}});
  return at::cat({previous(actions), in.previous_reward.unsqueeze(1)}, 1);
}

ModelOut RecurrentModel::forward(const ModelIn& in) {
  require(in.state.size() == 1 && in.is_first.defined(),
          "a recurrent model needs ModelIn::state and ModelIn::is_first; found none");
  auto x = trunk->forward(in.observation);
  if (sees_previous) x = at::cat({x, previous_of(in).masked_fill_(in.is_first.unsqueeze(1), 0)}, 1);
  x = x.to(cell.weight_ih.scalar_type());
  const auto [h, state] = unroll(shape, cell, x, in.state[0], in.is_first);
  return {policy->forward(h), value->forward(h).squeeze(1), {{"memory", state}}};
}

namespace {

bool has_trunk(const std::string& model) {
  return model == "mlp" || model == "nature-cnn" || model == "multi-input";
}

std::shared_ptr<Trunk> make_trunk(const NamedSpecs& observation, const ModelOptions& options,
                                  const at::Generator& generator) {
  if (options.name == "mlp") return make_mlp_trunk(observation, options, generator);
  if (options.name == "nature-cnn") return make_nature_cnn_trunk(observation, options, generator);
  return make_multi_input_trunk(observation, options, generator);
}

}  // namespace

std::shared_ptr<ActorCriticModel> make_recurrent(const NamedSpecs& observation,
                                                 std::int64_t policy_size,
                                                 const ModelOptions& options,
                                                 const Named<ActionSpec>& action,
                                                 at::Generator generator) {
  require(has_trunk(options.name),
          "model.memory: found model '{}', expected mlp, nature-cnn or multi-input; set "
          "model.memory to none",
          options.name);
  require(options.memory_size > 0, "model.memory_size: found {} units, expected at least 1",
          options.memory_size);
  NamedSpecs previous;
  for (const auto& [name, spec] : action)
    if (options.memory_sees_previous) previous.add(name, spec.array());
  return std::make_shared<RecurrentModel>(make_trunk(observation, options, generator), previous,
                                          policy_size, options, generator);
}

}  // namespace shoal
