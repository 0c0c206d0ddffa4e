#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/utils.h>

#include <set>
#include <utility>

#include "algos/optimizer.h"
#include "shoal/algos/optimizer.h"
#include "shoal/core/error.h"
#include "src/distributed/gradient_reducer.h"

namespace shoal {

namespace {

// Autograd gives the same tensor for two parameters of which only the sum is used. Gradients are
// changed in place, each once.
void separate(std::vector<at::Tensor>& gradients) {
  std::set<const void*> seen;
  for (auto& g : gradients)
    if (!seen.insert(g.const_data_ptr()).second) g = g.clone();
}

std::vector<at::Tensor> gradients_of(const at::Tensor& loss,
                                     const std::vector<at::Tensor>& parameters) {
  std::vector<at::Tensor> learned, all(parameters.size());
  for (const auto& p : parameters)
    if (p.requires_grad()) learned.push_back(p);
  if (loss.defined()) {
    require(!learned.empty(), "no parameter requires a gradient, expected one to learn");
    const auto found = torch::autograd::grad({loss}, learned, /*grad_outputs=*/{},
                                             /*retain_graph=*/std::nullopt, /*create_graph=*/false,
                                             /*allow_unused=*/true);
    for (std::size_t i = 0, next = 0; i < all.size(); ++i)
      if (parameters[i].requires_grad()) all[i] = found[next++];
  }
  for (std::size_t i = 0; i < all.size(); ++i)
    if (!all[i].defined()) all[i] = at::zeros_like(parameters[i]);
  separate(all);
  return all;
}

}  // namespace

struct DistributedOptimizer::Impl {
  ProcessGroup& ranks;
  Optimizer optimizer;
  std::unique_ptr<GradientReducer> overlapped;  // null unless sums are slow enough to overlap

  // average_one() and average_pieces() fill `all` with the gradients, then the metrics: means over
  // the steps of all ranks. They return the number of these steps.
  double average_one(const RankLoss& loss, std::vector<at::Tensor>& all) {
    overlapped->begin(static_cast<double>(loss.steps));
    all = gradients_of(loss.total, optimizer.parameters());
    all.push_back(loss.metrics);
    return overlapped->end(all);
  }

  double average_pieces(std::size_t pieces, const std::function<RankLoss(std::size_t)>& loss_of,
                        std::vector<at::Tensor>& all) {
    std::int64_t own = 0;
    for (std::size_t piece = 0; piece < pieces; ++piece) {
      const auto loss = loss_of(piece);
      auto means = gradients_of(loss.total, optimizer.parameters());
      means.push_back(loss.metrics);
      own += loss.steps;
      if (piece == 0) {
        all = std::move(means);  // over this rank's steps so far
      } else if (loss.steps > 0) {
        const torch::NoGradGuard no_grad;
        const auto share = static_cast<double>(loss.steps) / static_cast<double>(own);
        at::_foreach_lerp_(all, means, share);
      }
    }
    return average(ranks, all, static_cast<double>(own));
  }

  // learned_only: parameters that require no gradient stay as they are.
  at::Tensor clip_and_step(std::vector<at::Tensor> all, double max_grad_norm, bool learned_only) {
    const auto metrics = all.back();
    all.pop_back();
    const auto norm = clip_gradients(all, max_grad_norm);
    if (learned_only)
      for (std::size_t i = 0; i < all.size(); ++i)
        if (!optimizer.parameters()[i].requires_grad()) all[i] = at::Tensor();
    optimizer.step(std::move(all));
    return at::cat({metrics, norm.view(1)});
  }
};

DistributedOptimizer::DistributedOptimizer(ProcessGroup& ranks, OptimizerKind kind,
                                           std::vector<at::Tensor> parameters, double epsilon)
    : impl_(new Impl{ranks, Optimizer(kind, std::move(parameters), epsilon), nullptr}) {
  constexpr std::int64_t kLarge = 1 << 16;  // parameters; fewer are summed too fast to overlap
  const auto& all = impl_->optimizer.parameters();
  std::int64_t size = 0;
  bool all_learned = true;  // the reducer waits for every gradient
  for (const auto& p : all) {
    size += p.numel();
    all_learned &= p.requires_grad();
  }
  if (ranks.is_remote() && all.front().is_cpu() && all_learned && size >= kLarge)
    impl_->overlapped = std::make_unique<GradientReducer>(ranks, all);
}

DistributedOptimizer::~DistributedOptimizer() = default;

void DistributedOptimizer::set_learning_rate(double rate) {
  impl_->optimizer.set_learning_rate(rate);
}

at::Tensor DistributedOptimizer::step(std::vector<at::Tensor> gradients, const at::Tensor& metrics,
                                      double max_grad_norm) {
  separate(gradients);
  gradients.push_back(metrics);
  average(impl_->ranks, gradients, 1);
  return impl_->clip_and_step(std::move(gradients), max_grad_norm, /*learned_only=*/false);
}

at::Tensor DistributedOptimizer::step(std::size_t pieces,
                                      const std::function<RankLoss(std::size_t piece)>& loss_of,
                                      double max_grad_norm) {
  std::vector<at::Tensor> all;
  const auto steps = impl_->overlapped && pieces == 1 ? impl_->average_one(loss_of(0), all)
                                                      : impl_->average_pieces(pieces, loss_of, all);
  if (steps == 0) return {};
  return impl_->clip_and_step(std::move(all), max_grad_norm, /*learned_only=*/true);
}

NamedTensors DistributedOptimizer::state() const { return impl_->optimizer.state(); }

}  // namespace shoal
