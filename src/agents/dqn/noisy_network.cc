#include "src/agents/dqn/noisy_network.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/nn/modules/linear.h>
#include <torch/utils.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>

#include "src/core/divide_up.h"

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

// Calls f(first row, rows, noise of these rows) for all rows of a parameter with `dims` dimensions.
// The noise of a bias is out; that of a weight is the outer product of out and in, computed for so
// few rows at a time that it stays in the cache of a CPU.
template <class F>
void for_blocks(std::int64_t dims, const at::Tensor& out, const at::Tensor& in, const F& f) {
  constexpr std::int64_t kBlock = 1 << 16;  // elements
  const auto rows = out.size(0);
  if (dims == 1) return f(0, rows, out);
  const auto most = out.is_cpu() ? divide_up(kBlock, in.size(0)) : rows;
  for (std::int64_t first = 0; first < rows; first += most) {
    const auto n = std::min(most, rows - first);
    f(first, n, at::outer(out.narrow(0, first, n), in));
  }
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

void NoisyNetwork::draw(Rng& rng) {
  for (auto& layer : layers_) {
    fill(layer.in, rng);
    fill(layer.out, rng);
  }
  changed();
}

bool NoisyNetwork::use(bool noise) {
  const auto wanted = noise ? InUse::kNoise : InUse::kMeans;
  if (in_use_ == wanted || (in_use_ != InUse::kNeither && !noisy())) return false;
  in_use_ = wanted;
  torch::NoGradGuard no_grad;
  for (auto& one : noisy_) {
    if (!noise) {
      one.used.copy_(one.mean);
      continue;
    }
    const auto& [in, out] = layers_[one.layer];
    for_blocks(one.used.dim(), out, in, [&](auto first, auto rows, const at::Tensor& drawn) {
      auto to = one.used.narrow(0, first, rows);
      at::addcmul_out(to, one.mean.narrow(0, first, rows), one.deviation.narrow(0, first, rows),
                      drawn);
    });
  }
  return true;
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
  for (std::size_t i = 0; i < noisy_.size(); ++i) {
    const auto& [in, out] = layers_[noisy_[i].layer];
    const auto& gradient = all[plain_.size() + i];
    auto product = at::empty_like(gradient);
    for_blocks(gradient.dim(), out, in, [&](auto first, auto rows, const at::Tensor& drawn) {
      auto to = product.narrow(0, first, rows);
      at::mul_out(to, gradient.narrow(0, first, rows), drawn);
    });
    all.push_back(std::move(product));
  }
  return all;
}

void NoisyNetwork::move_towards(const NoisyNetwork& other, double share) {
  torch::NoGradGuard no_grad;
  at::_foreach_lerp_(learnable(), other.learnable(), share);
  const auto from = other.model_->buffers(), to = model_->buffers();
  for (std::size_t i = 0; i < to.size(); ++i) to[i].copy_(from[i]);
  changed();
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
  changed();
}

}  // namespace shoal
