#include "shoal/replays/replay.h"

#include <ATen/ATen.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "shoal/core/error.h"
#include "src/replays/step_store.h"

namespace shoal {

Replay::Replay(const EnvSpec& env, std::int64_t envs, const ReplayOptions& options)
    : alpha_(options.alpha),
      store_(std::make_unique<StepStore>(env, envs, options)),
      rng_(options.seed) {
  require(options.alpha >= 0, "alpha is {}, it must not be negative", options.alpha);
  if (options.prioritized) tree_.emplace(store_->rows() * envs);
  row_.resize(static_cast<std::size_t>(envs));
}

Replay::~Replay() = default;

std::size_t Replay::bytes(const EnvSpec& env, std::int64_t envs, const ReplayOptions& options) {
  const auto steps = StepStore::bytes(env, envs, options);
  return steps + (options.prioritized ? static_cast<std::size_t>(options.size) * 8 * 8 / 7 : 0);
}

std::int64_t Replay::size() const { return size_; }

void Replay::append(const Samples& samples) {
  // What a window overwrites cannot be drawn meanwhile, and what it completes can be after it.
  const auto oldest = store_->oldest(), end = store_->end();
  const auto kept = std::min(end, std::max(oldest, store_->oldest_after(samples.T)));
  for (auto tick = oldest; tick < kept; ++tick) offer(tick, false);
  store_->append(samples);
  for (auto tick = std::max(end, store_->oldest()); tick < store_->end(); ++tick) offer(tick, true);
}

// Makes the steps of a tick such as can be drawn, or not.
void Replay::offer(std::int64_t tick, bool can_be_drawn) {
  const double priority = std::pow(largest_priority_, alpha_);
  for (std::int64_t b = 0; b < store_->envs(); ++b) {
    const bool valid = store_->valid(tick, b);
    size_ += can_be_drawn ? valid : -static_cast<int>(valid);
    row_[static_cast<std::size_t>(b)] = valid && can_be_drawn ? priority : 0;
  }
  if (tree_) tree_->set_range(store_->row_of(tick) * store_->envs(), row_);
}

const Transitions& Replay::sample(std::int64_t n, double beta) {
  require(n >= 1, "a batch of {} steps: at least 1 is needed", n);
  require(size_ > 0, "the replay holds no complete step yet; append more before drawing");
  store_->prepare(n, batch_);
  auto* index = batch_.index.data_ptr<std::int64_t>();
  const std::span<std::int64_t> steps(index, static_cast<std::size_t>(n));
  if (tree_)
    draw_by_priority(steps, beta);
  else
    draw_alike(steps);
  store_->gather(steps, batch_);
  return batch_;
}

void Replay::draw_alike(std::span<std::int64_t> steps) {
  const auto B = store_->envs(), first = store_->oldest() * B, end = store_->end() * B;
  for (auto& step : steps) {
    do step = rng_.integer(first, end);
    while (!store_->valid(step / B, step % B));
  }
}

void Replay::draw_by_priority(std::span<std::int64_t> steps, double beta) {
  const auto n = steps.size();
  const double total = tree_->total(), part = total / static_cast<double>(n);
  drawn_.resize(n);
  for (std::size_t i = 0; i < n; ++i) drawn_[i] = (static_cast<double>(i) + rng_.uniform()) * part;
  tree_->find(drawn_, steps);
  // The smaller its probability, the more a step counts.
  double least = std::numeric_limits<double>::infinity();
  for (std::size_t i = 0; i < n; ++i) least = std::min(least, drawn_[i] = (*tree_)[steps[i]]);
  auto* weight = batch_.weight.data_ptr<float>();
  for (std::size_t i = 0; i < n; ++i)
    weight[i] = std::pow(static_cast<float>(least / drawn_[i]), static_cast<float>(beta));
  for (auto& step : steps) step = name_of_leaf(step);
}

// A row of the ring is that of one tick only among those that can be drawn.
std::int64_t Replay::name_of_leaf(std::int64_t leaf) const {
  const auto B = store_->envs(), rows = store_->rows(), oldest = store_->oldest();
  const auto ahead = (leaf / B - store_->row_of(oldest) + rows) % rows;
  return (oldest + ahead) * B + leaf % B;
}

void Replay::update_priorities(const at::Tensor& index, const at::Tensor& priority) {
  require(tree_.has_value(), "this replay draws all steps alike and has no priorities");
  require(index.dim() == 1 && index.sizes() == priority.sizes(),
          "priorities of shape {} for steps of shape {}: expected one each",
          fmt::format("[{}]", fmt::join(priority.sizes(), ", ")),
          fmt::format("[{}]", fmt::join(index.sizes(), ", ")));
  const auto names = index.to(at::kCPU, at::kLong).contiguous();
  const auto given = priority.to(at::kCPU, at::kFloat).contiguous();
  const auto* name = names.const_data_ptr<std::int64_t>();
  const auto* value = given.const_data_ptr<float>();
  const auto B = store_->envs(), first = store_->oldest() * B, end = store_->end() * B;
  leaves_.clear();
  drawn_.clear();
  for (std::int64_t i = 0; i < index.size(0); ++i) {
    require(value[i] > 0 && std::isfinite(value[i]),
            "priority {} is {}, it must be a number above 0", i, value[i]);
    if (name[i] < first || name[i] >= end) continue;
    leaves_.push_back(store_->row_of(name[i] / B) * B + name[i] % B);
    drawn_.push_back(std::pow(value[i], static_cast<float>(alpha_)));
    largest_priority_ = std::max<double>(largest_priority_, value[i]);
  }
  tree_->set(leaves_, drawn_);
}

}  // namespace shoal
