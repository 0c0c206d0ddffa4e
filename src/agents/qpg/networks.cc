#include "src/agents/qpg/networks.h"

#include <torch/csrc/autograd/autograd.h>

#include <vector>

#include "shoal/core/rng.h"
#include "src/models/run_model.h"

namespace shoal {

void QpgNetwork::flatten() {
  torch::NoGradGuard no_grad;
  const auto all = parameters();
  if (all.size() == 1) {
    flat_ = all[0].detach();
    return;
  }
  std::vector<at::Tensor> each;
  for (const auto& p : all) each.push_back(p.detach().flatten());
  flat_ = at::cat(each);
  std::int64_t from = 0;
  for (auto p : all) {
    p.set_data(flat_.narrow(0, from, p.numel()).view(p.sizes()));
    from += p.numel();
  }
}

at::Tensor QpgNetwork::gradient(const at::Tensor& loss) const {
  const auto all = parameters();
  auto each = torch::autograd::grad({loss}, all, {}, {}, false, /*allow_unused=*/true);
  if (all.size() == 1) return each[0];
  for (std::size_t i = 0; i < all.size(); ++i)
    each[i] = each[i].defined() ? each[i].flatten() : at::zeros_like(all[i]).flatten();
  return at::cat(each);
}

void QpgNetwork::move_to(at::Device device) {
  to(device);
  flatten();
}

void QpgNetwork::move_towards(const QpgNetwork& other, const at::Tensor& fraction) {
  torch::NoGradGuard no_grad;
  flat_.lerp_(other.flat_, fraction);
  const auto from = other.buffers(), to = buffers();
  for (std::size_t i = 0; i < to.size(); ++i) to[i].copy_(from[i]);
}

void QpgNetwork::add_to(NamedTensors& all, const std::string& name) const {
  const auto named = named_parameters();
  for (const auto& item : named)
    all.add(named.size() == 1 ? name : name + "/" + item.key(), item.value());
  for (const auto& item : named_buffers()) all.add(name + "/" + item.key(), item.value());
}

PolicyNetwork::PolicyNetwork(const FlatMlp& mlp, std::uint64_t seed)
    : mlp_(mlp), parameters_(register_parameter("mlp", at::empty({mlp.size()}))) {
  mlp_.initialise(parameters_, seed);
  flatten();
}

PolicyNetwork::PolicyNetwork(const std::shared_ptr<ActorCriticModel>& model)
    : model_(register_module("model", model)) {
  flatten();
}

at::Tensor PolicyNetwork::forward(const Observations& input) const {
  return model_ ? run_model(*model_, {input, {}, {}}).policy
                : mlp_.forward(parameters_, input[0].data);
}

std::uint64_t critic_seed(std::uint64_t seed, int k) {
  return env_seed(seed, Stream::kTrain, -3 - k);
}

CriticNetwork::CriticNetwork(const FlatMlp& head, int critics, std::uint64_t seed,
                             const std::shared_ptr<ActorCriticModel>& encoder)
    : head_(head), heads_(register_parameter("heads", at::empty({critics, head.size()}))) {
  for (int k = 0; k < critics; ++k) head_.initialise(heads_.detach()[k], critic_seed(seed, k));
  if (encoder) encoder_ = register_module("encoder", encoder);
  flatten();
}

at::Tensor CriticNetwork::forward(const Observations& input, const at::Tensor& action) const {
  const auto seen =
      encoder_ ? at::layer_norm(run_model(*encoder_, {input, {}, {}}).policy, {kFeatures}).tanh()
               : input[0].data;
  const auto x = at::cat({seen, action}, 1);
  std::vector<at::Tensor> all;
  for (const auto& head : heads_.unbind(0)) all.push_back(head_.forward(head, x).squeeze(1));
  return at::stack(all);
}

}  // namespace shoal
