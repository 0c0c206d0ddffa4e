#include "shoal/agents/actor_critic.h"

#include <ATen/ATen.h>
#include <torch/utils.h>

#include <cstring>

#include "shoal/core/error.h"
#include "shoal/data/saved.h"
#include "shoal/models/actor_critic.h"
#include "src/agents/observation_normalizer.h"
#include "src/agents/pg/head.h"
#include "src/compute/accelerator.h"
#include "src/models/run_model.h"

namespace shoal {

namespace {

// One component of the action: its head, and its offsets in the policy output and in the noise.
struct Part {
  std::string name, raw_name;
  std::shared_ptr<Head> head;
  std::int64_t first_output, first_number;
};

std::vector<Part> make_parts(const EnvSpec& spec, const ActorCriticOptions& options) {
  require(!spec.action.empty(), "{}: found an empty action space, expected at least one action",
          spec.id);
  std::vector<Part> parts;
  std::int64_t outputs = 0, numbers = 0;
  for (const auto& [name, action] : spec.action) {
    const auto head = make_head(action, options);
    parts.push_back({name, name.empty() ? "raw" : name + "/raw", head, outputs, numbers});
    outputs += head->size();
    numbers += head->noise_size();
  }
  return parts;
}

AgentSpec make_spec(const std::vector<Part>& parts, const NamedSpecs& state) {
  AgentSpec spec{.info = {{"log_prob", ArraySpec{}}, {"value", ArraySpec{}}}, .state = state};
  for (const auto& part : parts)
    if (const auto n = part.head->raw_size(); n > 0)
      spec.info.add(part.raw_name, ArraySpec{.shape = {n}});
  return spec;
}

class HeadedActorCritic : public ActorCritic {
 public:
  HeadedActorCritic(std::vector<Part> parts, std::shared_ptr<ActorCriticModel> model,
                    std::shared_ptr<ObservationNormalizer> normalizer,
                    const ActorCriticOptions& options)
      : parts_(std::move(parts)),
        outputs_(parts_.back().first_output + parts_.back().head->size()),
        spec_(make_spec(parts_, model->state())),
        model_(std::move(model)),
        normalizer_(std::move(normalizer)),
        options_(options) {
    parameters_changed();
  }

  const AgentSpec& spec() const override { return spec_; }

  void act(const ActIn& in, ActOut& out) override {
    torch::NoGradGuard no_grad;
    auto& value = out.agent_info.at("value");
    auto& log_prob = out.agent_info.at("log_prob");
    if (by_rows()) {
      const auto n = value.size(0);
      if (!policy_.defined() || policy_.size(0) != n)
        policy_ = at::empty({n, outputs_}, at::kFloat);
      run(in, policy_, value, out.state);
      std::memset(log_prob.data_ptr<float>(), 0, static_cast<std::size_t>(n) * sizeof(float));
      choose(in, policy_, out, log_prob);
    } else {
      const auto result = run_model(*model_, model_in(in), outputs_);
      value.copy_(result.value);
      log_prob.zero_();
      choose(in, result.policy, out, log_prob);
      for (const auto& [name, state] : result.state) out.state.at(name).copy_(state);
    }
  }

  void value(const ActIn& in, at::Tensor& value) override {
    torch::NoGradGuard no_grad;
    if (!by_rows()) {
      value.copy_(run_model(*model_, model_in(in), outputs_).value);
      return;
    }
    auto unused = at::empty({value.size(0), outputs_}, at::kFloat);
    run(in, unused, value, {});
  }

  Evaluation evaluate(const EvaluateIn& in) override {
    const auto result = run_model(*model_,
                                  {seen(in.observation), in.state, in.is_first, in.time,
                                   in.previous_action, in.previous_reward},
                                  outputs_);
    Evaluation all{.log_prob = {}, .entropy = {}, .value = result.value};
    for (const auto& part : parts_) {
      const auto [log_prob, entropy] = part.head->evaluate(
          {.policy = outputs_of(part, result.policy),
           .mask = in.mask.empty() ? at::Tensor() : in.mask[0],
           .action = in.action.at(part.name),
           .raw = part.head->raw_size() > 0 ? in.agent_info.at(part.raw_name) : at::Tensor()});
      all.log_prob = all.log_prob.defined() ? all.log_prob + log_prob : log_prob;
      all.entropy = all.entropy.defined() ? all.entropy + entropy : entropy;
    }
    return all;
  }

  PolicyOut policy_outputs(const ActIn& in, const at::Tensor& noise) override {
    const auto result = run_model(*model_, model_in(in), outputs_);
    PolicyOut out{.action = {}, .value = result.value, .state = result.state};
    for (const auto& part : parts_) {
      const auto own =
          noise.defined() ? noise.narrow(1, part.first_number, part.head->noise_size()) : noise;
      const auto of_head = part.head->outputs(outputs_of(part, result.policy),
                                              in.mask.empty() ? at::Tensor() : in.mask[0], own);
      out.action.add(part.name, of_head.action);
      add_with_prefix(part.name.empty() ? "" : part.name + "/", of_head.distribution,
                      out.distribution);
      if (!noise.defined()) continue;
      out.sample.add(part.name, of_head.sample);
      out.log_prob = out.log_prob.defined() ? out.log_prob + of_head.log_prob : of_head.log_prob;
    }
    return out;
  }
  std::int64_t policy_noise() const override {
    return parts_.back().first_number + parts_.back().head->noise_size();
  }

  NamedTensors statistics(const Samples& samples) override {
    return normalizer_ ? normalizer_->statistics(samples) : NamedTensors();
  }
  void add_statistics(const NamedTensors& found) override {
    if (normalizer_) normalizer_->add(found);
  }

  std::vector<at::Tensor> learnable() override {
    auto all = model_->parameters();
    for (const auto& part : parts_)
      for (auto& parameter : part.head->parameters()) all.push_back(parameter);
    return all;
  }

  NamedTensors parameters() override {
    NamedTensors all;
    for (auto& item : model_->named_parameters()) all.add(item.key(), item.value());
    for (auto& item : model_->named_buffers()) all.add(item.key(), item.value());
    if (normalizer_)
      for (auto& item : normalizer_->named_buffers())
        all.add("normalizer/" + item.key(), item.value());
    for (const auto& part : parts_)
      for (auto& item : part.head->named_parameters())
        all.add(part.name.empty() ? item.key() : part.name + "/" + item.key(), item.value());
    return all;
  }

  void parameters_changed() override {
    if (normalizer_) normalizer_->refresh();
    if (!is_host(device())) {
      acting_ = nullptr;
      recurrent_ = nullptr;
    } else if (acting_) {
      acting_->refresh();
    } else if (recurrent_) {
      recurrent_->refresh();
    } else if (spec_.state.empty()) {
      acting_ = model_->make_acting_network(options_.act_precision);
    } else {
      recurrent_ = model_->make_recurrent_acting();
    }
  }

  bool rows_are_independent() const override {
    return acting_ ? acting_->rows_are_independent()
                   : recurrent_ && recurrent_->rows_are_independent();
  }
  void to(at::Device device) override {
    model_->to(device);
    if (normalizer_) normalizer_->to(device);
    for (const auto& part : parts_) part.head->to(device);
    acting_ = nullptr;
    recurrent_ = nullptr;
    parameters_changed();
  }
  at::Device device() const override { return model_->parameters().front().device(); }

 private:
  // The observations as input of the model, normalized if enabled. Valid until the next call.
  const Observations& seen(const Observations& observation) {
    return normalizer_ ? normalized_ = (*normalizer_)(observation) : observation;
  }

  ModelIn model_in(const ActIn& in) {
    return {seen(in.observation), in.state, in.is_first, 1, in.previous_action, in.previous_reward};
  }

  // Whether a network for acting on the CPU exists.
  bool by_rows() const { return acting_ || recurrent_; }
  void run(const ActIn& in, at::Tensor& policy, at::Tensor& value, const NamedTensors& state) {
    if (acting_) return acting_->run(seen(in.observation), policy, value, in.noise.first_env);
    ModelOut out{policy, value, state};
    recurrent_->run(model_in(in), out);
  }

  at::Tensor outputs_of(const Part& part, const at::Tensor& policy) const {
    const auto size = part.head->size();
    return size == outputs_ ? policy : policy.narrow(1, part.first_output, size);
  }

  void choose(const ActIn& in, const at::Tensor& policy, ActOut& out, at::Tensor& log_prob) const {
    const Noise noise(in.noise);
    at::Tensor none;
    for (const auto& part : parts_) {
      const HeadIn to_head{.policy = outputs_of(part, policy),
                           .mask = in.mask.empty() ? none : in.mask[0],
                           .noise = noise,
                           .first_number = part.first_number,
                           .greedy = in.greedy,
                           .by_rows = by_rows()};
      auto& raw = part.head->raw_size() > 0 ? out.agent_info.at(part.raw_name) : none;
      part.head->act(to_head, out.action.at(part.name), raw, log_prob);
    }
  }

  std::vector<Part> parts_;
  std::int64_t outputs_;
  AgentSpec spec_;
  std::shared_ptr<ActorCriticModel> model_;
  std::shared_ptr<ObservationNormalizer> normalizer_;  // null: no normalization
  Observations normalized_;
  ActorCriticOptions options_;
  // At most one is set; if none, the model acts by forward(), as on a GPU.
  std::unique_ptr<ActingNetwork> acting_;
  std::unique_ptr<RecurrentActing> recurrent_;
  at::Tensor policy_;  // policy output of either
};

}  // namespace

std::int64_t policy_size(const EnvSpec& spec, const ActorCriticOptions& options) {
  const auto parts = make_parts(spec, options);
  return parts.back().first_output + parts.back().head->size();
}

std::unique_ptr<ActorCritic> make_actor_critic(const EnvSpec& spec,
                                               std::shared_ptr<ActorCriticModel> model,
                                               const ActorCriticOptions& options) {
  auto normalizer = options.normalize_observation
                        ? std::make_shared<ObservationNormalizer>(spec.observation)
                        : nullptr;
  require(!normalizer || !normalizer->buffers().empty(),
          "agent.normalize_observation: {} has no observations of real numbers; leave it off",
          spec.id);
  return std::make_unique<HeadedActorCritic>(make_parts(spec, options), std::move(model),
                                             std::move(normalizer), options);
}

std::unique_ptr<ActorCritic> make_actor_critic(const EnvSpec& spec, const ModelOptions& model,
                                               const ActorCriticOptions& options,
                                               std::uint64_t seed) {
  return make_actor_critic(
      spec, make_model(spec.observation, policy_size(spec, options), model, seed, spec.action),
      options);
}

}  // namespace shoal
