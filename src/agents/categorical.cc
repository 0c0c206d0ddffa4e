#include "shoal/agents/categorical.h"

#include <torch/torch.h>

#include <cmath>

#include "shoal/core/error.h"
#include "shoal/core/rng.h"
#include "src/agents/categorical_evaluation.h"

namespace shoal {

namespace {

const AgentSpec& info_spec() {
  static const AgentSpec spec{.info = {{"log_prob", ArraySpec{}}, {"value", ArraySpec{}}},
                              .state = {}};
  return spec;
}

float noise(const NoiseKey& key, std::int64_t row) {
  const auto env = static_cast<std::uint64_t>(key.first_env + row);
  return to_unit_float(philox(key.seed, static_cast<std::uint64_t>(key.tick), env)[0]);
}

// The first choice whose cumulated probability exceeds `u`; the most likely one if greedy.
std::int64_t choose(const float* weight, std::int64_t n, float total, float u, bool greedy) {
  if (greedy) return std::max_element(weight, weight + n) - weight;
  const float target = u * total;
  float sum = 0;
  std::int64_t last = 0;
  for (std::int64_t a = 0; a < n; ++a) {
    if (weight[a] <= 0) continue;  // illegal, or too unlikely for float32
    last = a;
    sum += weight[a];
    if (sum > target) break;
  }
  return last;
}

struct Chosen {
  std::int64_t action;
  float log_prob;
};

Chosen choose_from_logits(float* logits, std::int64_t n, float u, bool greedy) {
  const float top = *std::max_element(logits, logits + n);
  float total = 0;
  thread_local std::vector<float> weight;
  weight.resize(static_cast<std::size_t>(n));
  for (std::int64_t a = 0; a < n; ++a)
    total += weight[static_cast<std::size_t>(a)] = std::exp(logits[a] - top);
  const auto action = choose(weight.data(), n, total, u, greedy);
  return {action, logits[action] - top - std::log(total)};
}

class Categorical : public ActorCritic {
 public:
  Categorical(std::int64_t choices, std::shared_ptr<ActorCriticModel> model,
              const CategoricalOptions& options)
      : choices_(choices), model_(std::move(model)), options_(options) {
    parameters_changed();
  }

  const AgentSpec& spec() const override { return info_spec(); }

  void act(const ActIn& in, ActOut& out) override {
    torch::NoGradGuard no_grad;
    auto& value = out.agent_info.at("value");
    if (acting_) {
      const auto n = value.size(0);
      if (!logits_.defined() || logits_.size(0) != n)
        logits_ = at::empty({n, choices_}, at::kFloat);
      acting_->run(in.observation, logits_, value);
      choose_on_cpu(in, out);
    } else {
      const auto result = model_->forward({in.observation, in.state, in.first});
      value.copy_(result.value);
      choose_on_device(in, result.policy, out);
    }
  }

  void value(const ActIn& in, at::Tensor& value) override {
    torch::NoGradGuard no_grad;
    if (!acting_) {
      value.copy_(model_->forward({in.observation, in.state, in.first}).value);
      return;
    }
    auto unused = at::empty({value.size(0), choices_}, at::kFloat);
    acting_->run(in.observation, unused, value);
  }

  Evaluation evaluate(const EvaluateIn& in) override {
    const auto result = model_->forward({in.observation, in.state, in.first, in.time});
    auto logits = result.policy;
    if (!in.mask.empty()) logits = logits.masked_fill(in.mask[0].logical_not(), kForbidden);
    auto [log_prob, entropy] = evaluate_categorical(logits, in.action[0]);
    return {log_prob, entropy, result.value};
  }

  std::vector<at::Tensor> learnable() override { return model_->parameters(); }

  NamedTensors parameters() override {
    NamedTensors all;
    for (auto& item : model_->named_parameters()) all.add(item.key(), item.value());
    for (auto& item : model_->named_buffers()) all.add(item.key(), item.value());
    return all;
  }

  void parameters_changed() override {
    if (!device().is_cpu()) {
      acting_ = nullptr;
    } else if (acting_) {
      acting_->refresh();
    } else {
      acting_ = model_->make_acting_network(options_.act_precision);
    }
  }

  void to(at::Device device) override {
    model_->to(device);
    acting_ = nullptr;
    parameters_changed();
  }
  at::Device device() const override { return model_->parameters().front().device(); }

 private:
  // Finite, so that a product with a probability of zero stays zero.
  static constexpr float kForbidden = -1e9F;

  void choose_on_cpu(const ActIn& in, ActOut& out) {
    auto* logits = logits_.data_ptr<float>();
    auto* action = out.action[0].data_ptr<std::int64_t>();
    auto* log_prob = out.agent_info.at("log_prob").data_ptr<float>();
    const bool* mask = in.mask.empty() ? nullptr : in.mask[0].const_data_ptr<bool>();
    for (std::int64_t i = 0; i < logits_.size(0); ++i) {
      auto* row = logits + i * choices_;
      if (mask) {
        for (std::int64_t a = 0; a < choices_; ++a)
          if (!mask[i * choices_ + a]) row[a] = kForbidden;
      }
      const auto chosen =
          choose_from_logits(row, choices_, in.greedy ? 0 : noise(in.noise, i), in.greedy);
      action[i] = chosen.action;
      log_prob[i] = chosen.log_prob;
    }
  }

  void choose_on_device(const ActIn& in, at::Tensor logits, ActOut& out) {
    if (!in.mask.empty()) logits = logits.masked_fill(in.mask[0].logical_not(), kForbidden);
    const auto log_probs = at::log_softmax(logits, 1);
    at::Tensor action;
    if (in.greedy) {
      action = log_probs.argmax(1);
    } else {
      auto u = at::empty({logits.size(0)}, at::kFloat);
      for (std::int64_t i = 0; i < u.size(0); ++i) u.data_ptr<float>()[i] = noise(in.noise, i);
      // Scaled to what the probabilities add up to after rounding, so that an action without one is
      // never reached.
      const auto cumulated = log_probs.exp().cumsum(1);
      const auto target = u.to(logits.device()).unsqueeze(1) * cumulated.narrow(1, choices_ - 1, 1);
      action = cumulated.le(target).sum(1);
    }
    out.action[0].copy_(action);
    out.agent_info.at("log_prob").copy_(log_probs.gather(1, action.unsqueeze(1)).squeeze(1));
  }

  std::int64_t choices_;
  std::shared_ptr<ActorCriticModel> model_;
  CategoricalOptions options_;
  std::unique_ptr<ActingNetwork> acting_;  // null: on a device
  at::Tensor logits_;
};

std::int64_t choices_of(const EnvSpec& spec) {
  require(spec.action.size() == 1 && spec.action[0].kind == ActionSpec::Kind::kDiscrete,
          "a categorical agent chooses one discrete action; {} has another kind of action",
          spec.id);
  return spec.action[0].choices.at(0);
}

}  // namespace

std::unique_ptr<ActorCritic> make_categorical(const EnvSpec& spec,
                                              std::shared_ptr<ActorCriticModel> model,
                                              const CategoricalOptions& options) {
  return std::make_unique<Categorical>(choices_of(spec), std::move(model), options);
}

std::unique_ptr<ActorCritic> make_categorical(const EnvSpec& spec, const ModelOptions& model,
                                              const CategoricalOptions& options,
                                              std::uint64_t seed) {
  return make_categorical(spec, make_model(spec.observation, choices_of(spec), model, seed),
                          options);
}

}  // namespace shoal
