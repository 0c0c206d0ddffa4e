#include "shoal/replays/step_replay.h"

#include <ATen/ATen.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "shoal/core/error.h"
#include "shoal/data/saved.h"
#include "src/replays/step_store.h"

namespace shoal {

StepReplay::StepReplay(const EnvSpec& env, std::int64_t envs, const StepReplayOptions& options)
    : alpha_(options.alpha),
      largest_batch_(options.largest_batch),
      store_(std::make_unique<StepStore>(env, envs, options)),
      rng_(options.seed) {
  require(options.alpha >= 0, "alpha is {}, it must not be negative", options.alpha);
  if (options.prioritized) tree_.emplace(store_->cells());
  row_.resize(static_cast<std::size_t>(envs));
}

StepReplay::~StepReplay() = default;

std::size_t StepReplay::bytes(const EnvSpec& env, std::int64_t envs,
                              const StepReplayOptions& options) {
  const auto steps = StepStore::bytes(env, envs, options);
  return steps + (options.prioritized ? static_cast<std::size_t>(options.size) * 8 * 8 / 7 : 0);
}

std::int64_t StepReplay::size() const { return size_; }

void StepReplay::append(const Samples& samples) {
  store_->check(samples);
  // What a window overwrites cannot be drawn meanwhile, and what it completes can be after it.
  const auto oldest = store_->oldest(), end = store_->end();
  const auto kept = std::min(end, std::max(oldest, store_->oldest_after(samples.T)));
  for (auto tick = oldest; tick < kept; ++tick) offer(tick, false);
  store_->append(samples);
  for (auto tick = std::max(end, store_->oldest()); tick < store_->end(); ++tick) offer(tick, true);
}

// By the names of the store, "priorities" of all cells, and "draws": of the generator.
NamedTensors StepReplay::save() {
  NamedTensors all;
  store_->save(all);
  if (tree_) {
    const auto powers = tree_->leaves();
    all.add("priorities", at::from_blob(const_cast<double*>(powers.data()),
                                        {static_cast<std::int64_t>(powers.size())}, at::kDouble));
    all.add("largest_priority", at::full({}, largest_priority_, at::kDouble));
  }
  all.add("size", at::full({}, size_, at::kLong));
  all.add("draws", at::full({}, static_cast<std::int64_t>(rng_.counter()), at::kLong));
  return all;
}

void StepReplay::restore(const NamedTensors& from) {
  store_->restore(from);
  if (tree_) {
    const auto& powers = saved(from, "priorities");
    require(powers.numel() == store_->cells() && powers.scalar_type() == at::kDouble,
            "a replay of {} cells was saved, this one has {}", powers.numel(), store_->cells());
    tree_->set_range(0, {powers.const_data_ptr<double>(), tree_->leaves().size()});
    largest_priority_ = saved(from, "largest_priority").item<double>();
  }
  size_ = saved(from, "size").item<std::int64_t>();
  rng_ = Rng(rng_.key(), static_cast<std::uint64_t>(saved(from, "draws").item<std::int64_t>()));
}

// Makes the steps of a tick such as can be drawn, or not.
void StepReplay::offer(std::int64_t tick, bool can_be_drawn) {
  const auto B = store_->envs(), first = tick * B % store_->cells();
  const double priority = std::pow(largest_priority_, alpha_);
  for (std::int64_t b = 0; b < B; ++b) {
    const bool valid = store_->valid(first + b);
    size_ += can_be_drawn ? valid : -static_cast<int>(valid);
    row_[static_cast<std::size_t>(b)] = valid && can_be_drawn ? priority : 0;
  }
  if (tree_) tree_->set_range(first, row_);
}

const Transitions& StepReplay::sample(std::int64_t n, double beta) {
  require(n >= 1 && n <= largest_batch_,
          "a batch of {} steps: it must be in 1 to {} (StepReplayOptions::largest_batch)", n,
          largest_batch_);
  require(beta >= 0 && beta <= 1, "beta is {}, it must be in 0 to 1", beta);
  require(size_ > 0, "the replay holds no complete step yet; append more before drawing");
  store_->prepare(n, batch_);
  drawn_.resize(static_cast<std::size_t>(n));
  if (tree_)
    draw_by_priority(beta);
  else
    draw_alike();
  // In the ring, the cell of a step is its name modulo their number.
  const auto cells = store_->cells(), oldest = store_->oldest() * store_->envs();
  auto* name = batch_.index.data_ptr<std::int64_t>();
  for (const auto cell : drawn_) {
    const auto after = cell - oldest % cells;
    *name++ = oldest + (after < 0 ? after + cells : after);
  }
  store_->gather(drawn_, batch_);
  return batch_;
}

void StepReplay::draw_alike() {
  const auto oldest = store_->oldest() * store_->envs(), end = store_->end() * store_->envs();
  for (auto& cell : drawn_) {
    do cell = rng_.integer(oldest, end) % store_->cells();
    while (!store_->valid(cell));
  }
}

void StepReplay::draw_by_priority(double beta) {
  const auto n = drawn_.size();
  const double part = tree_->total() / static_cast<double>(n);
  values_.resize(n);
  for (std::size_t i = 0; i < n; ++i) values_[i] = (static_cast<double>(i) + rng_.uniform()) * part;
  tree_->find(values_, drawn_);
  // The smaller its probability, the more a step counts.
  double least = std::numeric_limits<double>::infinity();
  for (std::size_t i = 0; i < n; ++i) least = std::min(least, values_[i] = (*tree_)[drawn_[i]]);
  auto* weight = batch_.weight.data_ptr<float>();
  for (std::size_t i = 0; i < n; ++i)
    weight[i] = std::pow(static_cast<float>(least / values_[i]), static_cast<float>(beta));
}

void StepReplay::update_priorities(const at::Tensor& index, const at::Tensor& priority) {
  require(tree_.has_value(), "this replay draws all steps alike and has no priorities");
  require(index.dim() == 1 && index.sizes() == priority.sizes(),
          "priorities of shape [{}] for steps of shape [{}]: expected one each",
          fmt::join(priority.sizes(), ", "), fmt::join(index.sizes(), ", "));
  const auto names = index.to(at::kCPU, at::kLong).contiguous();
  const auto given = priority.to(at::kCPU, at::kFloat).contiguous();
  const auto* name = names.const_data_ptr<std::int64_t>();
  const auto* value = given.const_data_ptr<float>();
  const auto oldest = store_->oldest() * store_->envs(), end = store_->end() * store_->envs();
  drawn_.clear();
  values_.clear();
  for (std::int64_t i = 0; i < names.size(0); ++i) {
    require(value[i] > 0 && std::isfinite(value[i]),
            "priority {} is {}, it must be a number above 0", i, value[i]);
    if (name[i] < oldest || name[i] >= end) continue;
    drawn_.push_back(name[i] % store_->cells());
    values_.push_back(std::pow(value[i], static_cast<float>(alpha_)));
    largest_priority_ = std::max<double>(largest_priority_, value[i]);
  }
  tree_->set(drawn_, values_);
}

}  // namespace shoal
