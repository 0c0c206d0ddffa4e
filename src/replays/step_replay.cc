#include "shoal/replays/step_replay.h"

#include <ATen/TensorIndexing.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "shoal/core/error.h"
#include "shoal/data/saved.h"
#include "src/replays/priorities.h"
#include "src/replays/replay_share.h"
#include "src/replays/saved_replay.h"
#include "src/replays/step_store.h"

namespace shoal {

struct StepReplay::Slice {
  Rng rng;
  std::unique_ptr<Priorities> priorities = {};  // of its cells; null: uniform
  std::int64_t size = 0;                        // steps that can be drawn
};

StepReplay::StepReplay(const EnvSpec& env, std::int64_t envs, const StepReplayOptions& options)
    : StepReplay(env, envs, options, ReplayShare()) {}

StepReplay::StepReplay(const EnvSpec& env, std::int64_t envs, const StepReplayOptions& options,
                       ProcessGroup& ranks, const ReplayMemory& memory)
    : StepReplay(env, envs, options, ReplayShare(ranks, memory)) {
  require(options.slices == 1,
          "slices: found {}, expected 1: ranks that share a replay draw uniformly from all "
          "environments",
          options.slices);
}

StepReplay::StepReplay(const EnvSpec& env, std::int64_t envs, const StepReplayOptions& options,
                       const ReplayShare& share)
    : largest_batch_(options.largest_batch),
      first_slice_(options.first_slice),
      share_(std::make_unique<ReplayShare>(share)),
      store_(share.in_turn(
          [&] { return std::make_unique<StepStore>(env, envs, options, share.of_store()); })),
      row_(std::make_unique<bool[]>(static_cast<std::size_t>(envs))) {
  require_alpha(options.alpha);
  require(
      options.slices >= 1 && envs % options.slices == 0 && options.first_slice >= 0,
      "slices: found {} for {} environments, from {} on; expected equal slices, from 0 or above",
      options.slices, envs, options.first_slice);
  for (int s = 0; s < options.slices; ++s) {
    const std::int64_t number = options.first_slice + std::int64_t{s};
    auto& slice = slices_.emplace_back(Slice{Rng(slice_seed(options.seed, number))});
    if (options.prioritized)
      slice.priorities =
          std::make_unique<Priorities>(store_->cells() / options.slices, options.alpha);
  }
}

StepReplay::~StepReplay() = default;

int StepReplay::slices() const { return static_cast<int>(slices_.size()); }

bool StepReplay::is_shared() const { return share_->is_shared(); }

bool StepReplay::prioritized() const { return slices_.front().priorities != nullptr; }

std::size_t StepReplay::bytes(const EnvSpec& env, std::int64_t envs,
                              const StepReplayOptions& options) {
  const auto steps = StepStore::bytes(env, envs, options);
  return steps + (options.prioritized ? Priorities::bytes(options.size) : 0);
}

std::int64_t StepReplay::size() const {
  std::int64_t all = 0;
  for (const auto& slice : slices_) {
    if (slice.size == 0) return 0;
    all += slice.size;
  }
  return all;
}

void StepReplay::append(const Samples& samples) {
  store_->check(samples);
  // Steps that the rollout overwrites are withdrawn first; steps that it completes are offered
  // after it.
  const auto oldest = store_->oldest(), end = store_->end();
  const auto kept = std::min(end, std::max(oldest, store_->oldest_after(samples.T)));
  for (auto tick = oldest; tick < kept; ++tick) offer(tick, false);
  share_->meet_with_steps(samples.T);  // no rank still reads the rows that are overwritten now
  store_->append(samples);
  share_->meet();
  for (auto tick = std::max(end, store_->oldest()); tick < store_->end(); ++tick) offer(tick, true);
}

// Adds to the tensors of the store "priorities", [rows, B], and for each slice "largest_priority"
// and "draws", the counter of its generator.
NamedTensors StepReplay::save() {
  NamedTensors all;
  store_->save(all);
  const auto slices = static_cast<std::int64_t>(slices_.size());
  const auto draws = at::empty({slices}, at::kLong), largest = at::empty({slices}, at::kDouble);
  std::vector<at::Tensor> powers;
  for (std::int64_t s = 0; s < slices; ++s) {
    const auto& slice = slices_[static_cast<std::size_t>(s)];
    draws[s] = static_cast<std::int64_t>(slice.rng.counter());
    if (!slice.priorities) continue;
    largest[s] = slice.priorities->largest();
    powers.push_back(slice.priorities->powers().view({-1, slice_envs()}));
    if (is_shared())
      powers.back() = powers.back().narrow(1, store_->first_env(), store_->own_envs());
  }
  all.add("draws", draws);
  if (prioritized()) {
    save_settings(slices_.front().priorities->settings(), all);
    all.add("priorities", powers.size() == 1 ? powers[0] : at::cat(powers, 1));
    all.add("largest_priority", largest);
  }
  return all;
}

void StepReplay::restore(const NamedTensors& from) {
  if (prioritized()) require_saved_settings(from, slices_.front().priorities->settings());
  store_->restore(from);
  share_->meet();
  // If the ranks did not share the replay when it was saved: the largest value of all ranks.
  const auto of_slices = [&](const std::string& name) {
    const auto own = saved_of_slices(from, name, slices());
    return is_shared() ? share_->join(own, 0).amax().view({1}) : own;
  };
  const auto draws = of_slices("draws");
  for (std::size_t s = 0; s < slices_.size(); ++s) {
    auto& [rng, priorities, size] = slices_[s];
    size = 0;
    const auto slice = static_cast<std::int64_t>(s);
    rng = Rng(rng.key(), static_cast<std::uint64_t>(draws[slice].item<std::int64_t>()));
    if (!priorities) continue;
    const auto own = saved(from, "priorities");
    require(own.dim() == 2 && own.size(1) == store_->own_envs(),
            "'priorities': found another number of environments than the {} expected",
            store_->own_envs());
    const auto powers = share_->join(own, 1);
    priorities->restore(powers.narrow(1, slice * slice_envs(), slice_envs()).contiguous(),
                        of_slices("largest_priority")[slice].item<double>());
  }
  for (auto tick = store_->oldest(); tick < store_->end(); ++tick)
    for (std::int64_t b = 0; b < store_->envs(); ++b)
      slice_of(b).size += store_->valid(store_->cell_of(tick) + b);
}

std::int64_t StepReplay::slice_envs() const {
  return store_->envs() / static_cast<std::int64_t>(slices_.size());
}

StepReplay::Slice& StepReplay::slice_of(std::int64_t env) {
  return slices_[static_cast<std::size_t>(env / slice_envs())];
}

// The index among all cells of a slice's cell.
std::int64_t StepReplay::cell_of_slice(std::size_t slice, std::int64_t cell) const {
  const auto envs = slice_envs();
  return cell / envs * store_->envs() + static_cast<std::int64_t>(slice) * envs + cell % envs;
}

// Sets whether the steps of a tick can be drawn.
void StepReplay::offer(std::int64_t tick, bool can_be_drawn) {
  const auto B = store_->envs(), first = tick * B % store_->cells();
  for (std::int64_t b = 0; b < B; ++b) {
    const bool valid = store_->valid(first + b);
    slice_of(b).size += can_be_drawn ? valid : -static_cast<int>(valid);
    row_[static_cast<std::size_t>(b)] = valid && can_be_drawn;
  }
  if (!prioritized()) return;
  const auto envs = static_cast<std::size_t>(slice_envs());
  for (std::size_t s = 0; s < slices_.size(); ++s)
    slices_[s].priorities->offer(first / static_cast<std::int64_t>(slices_.size()),
                                 {row_.get() + s * envs, envs});
}

const Transitions& StepReplay::sample(std::int64_t n, double beta) {
  require(n >= 1 && n <= largest_batch_,
          "batch: found {} steps, expected 1 to {} (StepReplayOptions::largest_batch)", n,
          largest_batch_);
  require(beta >= 0 && beta <= 1, "beta: found {}, expected 0 to 1", beta);
  require(size() > 0,
          "replay: found no complete step, or a slice without one; append more rollouts before "
          "drawing");
  const auto own = share_->part_of(n, "steps");
  store_->prepare(static_cast<std::int64_t>(own.count), batch_);
  drawn_.resize(static_cast<std::size_t>(n));
  const auto each = drawn_.size() / slices_.size();
  require(each * slices_.size() == drawn_.size(),
          "batch: found {} steps, expected a multiple of {} slices", n, slices_.size());
  probability_.resize(prioritized() ? drawn_.size() : 0);
  for (std::size_t s = 0; s < slices_.size(); ++s) {
    const auto cells = std::span(drawn_).subspan(s * each, each);
    if (prioritized())
      slices_[s].priorities->draw(cells, slices_[s].rng,
                                  std::span(probability_).subspan(s * each, each));
    else
      draw_alike(s, cells);
    if (slices_.size() > 1)
      for (auto& cell : cells) cell = cell_of_slice(s, cell);
  }
  const auto part_of = [&]<class T>(std::vector<T>& all) {
    return std::span(all).subspan(own.from, own.count);
  };
  if (prioritized()) {
    batch_.least_probability = std::ranges::min(probability_);
    importance_weights(part_of(probability_), batch_.least_probability, beta,
                       batch_.weight.data_ptr<float>());
  }
  const auto drawn = part_of(drawn_);
  // The cell of a step is its name modulo the number of cells.
  const auto cells = store_->cells(), oldest = store_->oldest() * store_->envs();
  auto* name = batch_.index.data_ptr<std::int64_t>();
  for (const auto cell : drawn) {
    const auto after = cell - oldest % cells;
    *name++ = oldest + (after < 0 ? after + cells : after);
  }
  store_->gather(drawn, batch_);
  return batch_;
}

void StepReplay::draw_alike(std::size_t slice, std::span<std::int64_t> cells) {
  const auto envs = slice_envs();
  const auto count = store_->cells() / static_cast<std::int64_t>(slices_.size());
  for (auto& cell : cells) {
    do cell = slices_[slice].rng.integer(store_->oldest() * envs, store_->end() * envs) % count;
    while (!store_->valid(cell_of_slice(slice, cell)));
  }
}

void StepReplay::update_priorities(const at::Tensor& index, const at::Tensor& priority) {
  require(prioritized(), "this replay draws uniformly and has no priorities");
  const auto envs = slice_envs(), B = store_->envs();
  const std::pair kept{store_->oldest() * envs, store_->end() * envs};
  if (is_shared())
    return slices_[0].priorities->update(share_->join(index, 0), share_->join(priority, 0), kept);
  if (slices_.size() == 1) return slices_[0].priorities->update(index, priority, kept);
  const auto slice = (index % B).div(envs, "floor");
  const auto of_slice = index.div(B, "floor") * envs + index % envs;
  for (std::size_t s = 0; s < slices_.size(); ++s) {
    const auto own = slice == static_cast<std::int64_t>(s);
    slices_[s].priorities->update(of_slice.index({own}), priority.index({own}), kept);
  }
}

}  // namespace shoal
