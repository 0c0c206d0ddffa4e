#include "algos/pg/minibatches.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>

#include "shoal/core/error.h"
#include "shoal/core/rng.h"

namespace shoal {

namespace {

// All steps of some environments, time-major.
at::Tensor rows_of(const Samples& s, const at::Tensor& envs) {
  const auto steps = at::arange(s.T, envs.options()).mul_(s.B).unsqueeze(1);
  return (steps + envs).flatten();
}

}  // namespace

std::vector<Minibatch> Minibatch::pieces(const Samples& samples, std::int64_t count) const {
  const bool sequences = envs.defined();
  const auto& all = sequences ? envs : rows;
  if (count == 1) return {*this};
  std::vector<Minibatch> pieces;
  for (const auto& piece : all.tensor_split(count))
    pieces.push_back(sequences ? Minibatch{rows_of(samples, piece), piece} : Minibatch{piece, {}});
  return pieces;
}

Minibatches::Minibatches(const MinibatchOptions& options)
    : options_(options), generators_(static_cast<std::size_t>(options.slices)) {}

void Minibatches::begin(const Samples& s, std::uint64_t update) {
  const auto& o = options_;
  require(s.B % o.slices == 0,
          "environments: found {}, expected a multiple of the number of slices, {}", s.B, o.slices);
  const auto most = s.B / o.slices * (o.whole_sequences ? 1 : s.T);
  require(o.count <= most, "{} minibatches of {} {}; choose at most as many as there are{}{}",
          o.count, most, o.whole_sequences ? "environments" : "samples",
          o.slices > 1 ? " in a slice" : "",
          o.whole_sequences ? ": recurrent agents and V-trace learn from whole sequences" : "");
  // Sequences without a valid step (OnDeath::kRestart) are left out.
  all_ = (o.whole_sequences ? s.valid.any(0) : s.valid.flatten()).nonzero().flatten();
  for (std::size_t i = 0; i < generators_.size(); ++i) {
    const auto slice = o.first_slice + static_cast<std::int64_t>(i);
    generators_[i] = at::detail::createCPUGenerator(Rng(slice_seed(o.seed, slice), update)());
  }
}

std::vector<Minibatch> Minibatches::shuffled(const Samples& samples) {
  std::vector<std::vector<at::Tensor>> parts(static_cast<std::size_t>(options_.count));
  for (std::size_t i = 0; i < generators_.size(); ++i) {
    const auto those = of_slice(all_, i, samples.B);
    const auto order =
        at::randperm(those.size(0), generators_[i], at::kLong).to(samples.reward.device());
    const auto split = those.index_select(0, order).tensor_split(options_.count);
    for (std::size_t k = 0; k < parts.size(); ++k) parts[k].push_back(split[k]);
  }
  std::vector<Minibatch> minibatches;
  for (const auto& of_slices : parts) {
    const auto chosen = of_slices.size() == 1 ? of_slices.front() : at::cat(of_slices);
    if (options_.whole_sequences)
      minibatches.push_back({rows_of(samples, chosen), chosen});
    else
      minibatches.push_back({chosen, {}});
  }
  return minibatches;
}

// The environments, or steps, of `those` that belong to this slice.
at::Tensor Minibatches::of_slice(const at::Tensor& those, std::size_t slice, std::int64_t B) const {
  if (options_.slices == 1) return those;
  const auto of = (those % B).div(B / options_.slices, "floor");
  return those.index({of == static_cast<std::int64_t>(slice)});
}

}  // namespace shoal
