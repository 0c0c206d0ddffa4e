#include "src/agents/dqn/noisy_network.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/nn/modules/linear.h>
#include <torch/utils.h>

#include <cmath>
#include <numbers>

namespace shoal {
namespace {

// sign(x) sqrt(|x|) of a normal x.
float rooted_normal(Rng& rng) {
  const double radius = std::sqrt(-2 * std::log(1 - rng.uniform()));
  const double x = radius * std::cos(2 * std::numbers::pi * rng.uniform());
  return static_cast<float>(std::copysign(std::sqrt(std::abs(x)), x));
}

void fill(at::Tensor& tensor, Rng& rng) {
  auto values = at::empty(tensor.sizes());
  auto* to = values.data_ptr<float>();
  for (std::int64_t i = 0; i < values.numel(); ++i) to[i] = rooted_normal(rng);
  tensor.copy_(values);
}

}  // namespace

NoisyNetwork::NoisyNetwork(std::shared_ptr<ActorCriticModel> model, double deviation)
    : model_(std::move(model)) {
  torch::NoGradGuard no_grad;
  const auto add_noisy = [&](const std::string& name, const at::Tensor& used, double start) {
    noisy_.push_back({.name = name,
                      .used = used,
                      .mean = used.detach().clone(),
                      .deviation = at::full_like(used, start),
                      .layer = layers_.size()});
  };
  for (const auto& item : model_->named_modules("", /*include_self=*/false)) {
    const auto* linear = item.value()->as<torch::nn::Linear>();
    if (linear == nullptr || deviation == 0) continue;
    const double start = deviation / std::sqrt(static_cast<double>(linear->weight.size(1)));
    add_noisy(item.key() + ".weight", linear->weight, start);
    add_noisy(item.key() + ".bias", linear->bias, start);
    layers_.push_back({at::zeros({linear->weight.size(1)}), at::zeros({linear->weight.size(0)})});
  }
  for (const auto& item : model_->named_parameters()) {
    bool noisy = false;
    for (const auto& one : noisy_) noisy = noisy || one.used.is_same(item.value());
    if (noisy) continue;
    plain_names_.push_back(item.key());
    plain_.push_back(item.value());
  }
}

at::Tensor NoisyNetwork::Noisy::noise(const NoisyNetwork& network) const {
  const auto& [in, out] = network.layers_[layer];
  return used.dim() == 2 ? at::outer(out, in) : out;
}

void NoisyNetwork::draw(Rng& rng) {
  for (auto& layer : layers_) {
    fill(layer.in, rng);
    fill(layer.out, rng);
  }
}

void NoisyNetwork::use(bool noise) {
  torch::NoGradGuard no_grad;
  for (auto& one : noisy_) {
    if (noise)
      at::addcmul_out(one.used, one.mean, one.deviation, one.noise(*this));
    else
      one.used.copy_(one.mean);
  }
}

NamedTensors NoisyNetwork::weights() const {
  NamedTensors all;
  for (const auto& item : model_->named_parameters()) all.add(item.key(), item.value());
  for (const auto& item : model_->named_buffers()) all.add(item.key(), item.value());
  return all;
}

NamedTensors NoisyNetwork::parameters() {
  NamedTensors all;
  for (std::size_t i = 0; i < plain_.size(); ++i) all.add(plain_names_[i], plain_[i]);
  for (auto& one : noisy_) {
    all.add(one.name, one.mean);
    all.add(one.name + "_deviation", one.deviation);
  }
  for (auto& item : model_->named_buffers()) all.add(item.key(), item.value());
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    all.add("noise_in." + std::to_string(i), layers_[i].in);
    all.add("noise_out." + std::to_string(i), layers_[i].out);
  }
  return all;
}

std::vector<at::Tensor> NoisyNetwork::learnable() const {
  auto all = plain_;
  for (const auto& one : noisy_) all.push_back(one.mean);
  for (const auto& one : noisy_) all.push_back(one.deviation);
  return all;
}

std::vector<at::Tensor> NoisyNetwork::gradients(const at::Tensor& loss) const {
  auto with_respect_to = plain_;
  for (const auto& one : noisy_) with_respect_to.push_back(one.used);
  auto all = torch::autograd::grad({loss}, with_respect_to, {}, {}, false, /*allow_unused=*/true);
  // The loss does not depend on the value head.
  for (std::size_t i = 0; i < all.size(); ++i)
    if (!all[i].defined()) all[i] = at::zeros_like(with_respect_to[i]);
  for (std::size_t i = 0; i < noisy_.size(); ++i)
    all.push_back(all[plain_.size() + i] * noisy_[i].noise(*this));
  return all;
}

void NoisyNetwork::move_towards(const NoisyNetwork& other, double share) {
  torch::NoGradGuard no_grad;
  at::_foreach_lerp_(learnable(), other.learnable(), share);
  const auto from = other.model_->buffers(), to = model_->buffers();
  for (std::size_t i = 0; i < to.size(); ++i) to[i].copy_(from[i]);
}

void NoisyNetwork::to(at::Device device) {
  model_->to(device);
  for (auto& one : noisy_) {
    one.mean = one.mean.to(device);
    one.deviation = one.deviation.to(device);
  }
  for (auto& layer : layers_) {
    layer.in = layer.in.to(device);
    layer.out = layer.out.to(device);
  }
}

}  // namespace shoal
