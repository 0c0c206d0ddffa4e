#include "algos/learn_together.h"

#include <torch/torch.h>

#include <cstring>

namespace shoal {

namespace {

std::vector<at::Tensor> gradients_of(const at::Tensor& loss,
                                     const std::vector<at::Tensor>& parameters) {
  std::vector<at::Tensor> all(parameters.size());
  if (loss.defined())
    all = torch::autograd::grad({loss}, parameters, /*grad_outputs=*/{},
                                /*retain_graph=*/std::nullopt, /*create_graph=*/false,
                                /*allow_unused=*/true);
  for (std::size_t i = 0; i < all.size(); ++i)
    if (!all[i].defined()) all[i] = at::zeros_like(parameters[i]);
  return all;
}

}  // namespace

at::Tensor step_together(Ranks& ranks, Optimizer& optimizer, const RankLoss& loss,
                         double max_grad_norm, double learning_rate) {
  auto all = gradients_of(loss.total, optimizer.parameters());
  all.push_back(loss.parts);
  const auto steps = average(ranks, all, static_cast<double>(loss.steps));
  const auto parts = all.back();
  all.pop_back();
  if (steps == 0) return {};
  const auto norm = clip_gradients(all, max_grad_norm);
  optimizer.step(all, learning_rate);
  return at::cat({parts, norm.view(1)});
}

void observe_together(Ranks& ranks, ActorCritic& agent, const Samples& samples) {
  const auto own = agent.statistics(samples);
  if (own.empty() || ranks.count() == 1) return agent.add_statistics(own);
  std::vector<at::Tensor> flat;
  for (const auto& [name, numbers] : own) flat.push_back(numbers.flatten());
  const auto bytes = at::cat(flat).to(at::kCPU);
  const auto all =
      ranks.gather({static_cast<const std::byte*>(bytes.const_data_ptr()), bytes.nbytes()});
  for (const auto& of_rank : all) {
    auto numbers = at::empty_like(bytes);
    std::memcpy(numbers.data_ptr(), of_rank.data(), of_rank.size());
    numbers = numbers.to(flat.front().device());
    NamedTensors statistics;
    std::int64_t from = 0;
    for (const auto& [name, like] : own) {
      statistics.add(name, numbers.narrow(0, from, like.numel()).view(like.sizes()));
      from += like.numel();
    }
    agent.add_statistics(statistics);
  }
}

}  // namespace shoal
