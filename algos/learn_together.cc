#include "algos/learn_together.h"

#include <torch/torch.h>

#include <cstring>
#include <utility>

#include "algos/overlapped_average.h"

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

SharedOptimizer::SharedOptimizer(Ranks& ranks, OptimizerKind kind,
                                 std::vector<at::Tensor> parameters, double epsilon)
    : ranks_(ranks), optimizer_(kind, std::move(parameters), epsilon) {
  constexpr std::int64_t kLarge = 1 << 16;  // numbers; what is smaller is there at once
  std::int64_t size = 0;
  for (const auto& p : optimizer_.parameters()) size += p.numel();
  const bool on_cpu = optimizer_.parameters().front().is_cpu();
  if (ranks_.is_remote() && on_cpu && size >= kLarge)
    overlapped_ = std::make_unique<OverlappedAverage>(ranks_, optimizer_.parameters());
}

SharedOptimizer::~SharedOptimizer() = default;

at::Tensor SharedOptimizer::step(std::size_t pieces,
                                 const std::function<RankLoss(std::size_t piece)>& loss_of,
                                 double max_grad_norm) {
  std::vector<at::Tensor> all;  // gradients, then parts
  const auto steps = overlapped_ && pieces == 1 ? average_one(loss_of(0), all)
                                                : average_pieces(pieces, loss_of, all);
  const auto parts = all.back();
  all.pop_back();
  if (steps == 0) return {};
  const auto norm = clip_gradients(all, max_grad_norm);
  optimizer_.step(all);
  return at::cat({parts, norm.view(1)});
}

double SharedOptimizer::average_one(const RankLoss& loss, std::vector<at::Tensor>& all) {
  overlapped_->begin(static_cast<double>(loss.steps));
  all = gradients_of(loss.total, optimizer_.parameters());
  all.push_back(loss.parts);
  return overlapped_->end(all);
}

double SharedOptimizer::average_pieces(std::size_t pieces,
                                       const std::function<RankLoss(std::size_t)>& loss_of,
                                       std::vector<at::Tensor>& all) {
  std::int64_t own = 0;
  for (std::size_t piece = 0; piece < pieces; ++piece) {
    const auto loss = loss_of(piece);
    auto means = gradients_of(loss.total, optimizer_.parameters());
    means.push_back(loss.parts);
    own += loss.steps;
    if (piece == 0) {
      all = std::move(means);  // over this rank's steps so far
    } else if (loss.steps > 0) {
      const torch::NoGradGuard no_grad;
      const auto share = static_cast<double>(loss.steps) / static_cast<double>(own);
      at::_foreach_lerp_(all, means, share);
    }
  }
  return average(ranks_, all, static_cast<double>(own));
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
