#pragma once

#include <torch/torch.h>

#include "shoal/models/actor_critic.h"
#include "tests/models/model_inputs.h"

namespace shoal {

// A recurrent mlp, step by step and in double precision, from the definitions of the cells, with
// gradients. Reads observations of one vector and one discrete action.
struct RecurrentByHand {
  RecurrentByHand(const ActorCriticModel& model, std::int64_t choices) : actions(choices) {
    for (const auto& item : model.named_parameters())
      parameters.insert(item.key(), item.value().detach().to(at::kDouble).requires_grad_());
  }

  at::Tensor layer(const std::string& name, const at::Tensor& x) {
    return at::linear(x, parameters[name + ".weight"], parameters[name + ".bias"]);
  }
  at::Tensor product(const char* with, const at::Tensor& x) {
    return at::linear(x, parameters[fmt::format("memory_weight_{}", with)],
                      parameters[fmt::format("memory_bias_{}", with)]);
  }

  // One step of one sequence; h and c [units] are those before it, then those after it.
  void step(const at::Tensor& x, at::Tensor& h, at::Tensor& c) {
    const auto units = h.size(0);
    const auto of_x = product("ih", x), of_h = product("hh", h);
    const auto part = [&](const at::Tensor& all, std::int64_t i) {
      return all.narrow(0, i * units, units);
    };
    if (of_x.size(0) == 4 * units) {
      const auto all = of_x + of_h;
      c = part(all, 1).sigmoid() * c + part(all, 0).sigmoid() * part(all, 2).tanh();
      h = part(all, 3).sigmoid() * c.tanh();
      return;
    }
    const auto r = (part(of_x, 0) + part(of_h, 0)).sigmoid();
    const auto z = (part(of_x, 1) + part(of_h, 1)).sigmoid();
    const auto n = (part(of_x, 2) + r * part(of_h, 2)).tanh();
    h = (1 - z) * n + z * h;
  }

  // `state`: of each sequence [parts, units]; then that after the last step.
  Heads operator()(const ModelIn& in, bool sees_previous = true) {
    const auto n = in.is_first.size(0) / in.time;
    std::vector<at::Tensor> h_of, outputs;
    state = in.state[0].to(at::kDouble).clone();
    std::vector<std::vector<at::Tensor>> rows(static_cast<std::size_t>(n));
    for (std::int64_t b = 0; b < n; ++b) {
      auto h = state[b][0].clone(), c = state[b][-1].clone();
      for (std::int64_t t = 0; t < in.time; ++t) {
        const auto i = t * n + b;
        const bool first = in.is_first[i].item<bool>();
        if (first) h = at::zeros_like(h), c = at::zeros_like(c);
        auto x = in.observation[0].data[i].to(at::kDouble);
        for (int l = 0; parameters.contains(fmt::format("trunk.{}.weight", l)); ++l)
          x = layer(fmt::format("trunk.{}", l), x).tanh();
        if (sees_previous) {
          auto previous = at::zeros({actions + 1}, at::kDouble);
          if (!first) {
            previous[in.previous_action[0][i].item<std::int64_t>()] = 1;
            previous[actions] = in.previous_reward[i].to(at::kDouble);
          }
          x = at::cat({x, previous});
        }
        step(x, h, c);
        rows[static_cast<std::size_t>(b)].push_back(h);
      }
      state[b][-1].copy_(c.detach());
      state[b][0].copy_(h.detach());
    }
    for (std::int64_t t = 0; t < in.time; ++t)
      for (const auto& row : rows) outputs.push_back(row[static_cast<std::size_t>(t)]);
    const auto all = at::stack(outputs);
    return {layer("policy_head", all), layer("value_head", all).squeeze(1)};
  }

  std::int64_t actions;
  torch::OrderedDict<std::string, at::Tensor> parameters;
  at::Tensor state;
};

// Random sequences, in which episodes start now and then.
inline ModelIn random_sequences(std::int64_t time, std::int64_t sequences, std::int64_t width,
                                std::int64_t choices, const NamedSpecs& state) {
  const auto n = time * sequences;
  ModelIn in{.observation = Observed{at::randn({n, width}), {}},
             .state = {},
             .is_first = at::rand({n}).lt(0.2),
             .time = time,
             .previous_action = at::randint(0, choices, {n}, at::kLong),
             .previous_reward = at::randn({n})};
  for (const auto& [name, spec] : state) {
    auto shape = spec.shape;
    shape.insert(shape.begin(), sequences);
    in.state.add(name, at::randn(shape));
  }
  return in;
}

// The inputs of one step of the sequences.
inline ModelIn step_of(const ModelIn& in, std::int64_t t, NamedTensors state) {
  const auto n = in.is_first.size(0) / in.time;
  ModelIn step{.observation = Observed{in.observation[0].data.narrow(0, t * n, n), {}},
               .state = std::move(state),
               .is_first = in.is_first.narrow(0, t * n, n),
               .previous_reward = in.previous_reward.narrow(0, t * n, n)};
  step.previous_action = in.previous_action[0].narrow(0, t * n, n);
  return step;
}

}  // namespace shoal
