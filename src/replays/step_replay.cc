#include "shoal/replays/step_replay.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <vector>

#include "shoal/core/error.h"
#include "shoal/data/saved.h"
#include "src/replays/priorities.h"
#include "src/replays/step_store.h"

namespace shoal {

StepReplay::StepReplay(const EnvSpec& env, std::int64_t envs, const StepReplayOptions& options)
    : largest_batch_(options.largest_batch),
      store_(std::make_unique<StepStore>(env, envs, options)),
      rng_(options.seed),
      row_(std::make_unique<bool[]>(static_cast<std::size_t>(envs))) {
  require(options.alpha >= 0, "alpha is {}, it must not be negative", options.alpha);
  if (options.prioritized)
    priorities_ = std::make_unique<Priorities>(store_->cells(), options.alpha);
}

StepReplay::~StepReplay() = default;

std::size_t StepReplay::bytes(const EnvSpec& env, std::int64_t envs,
                              const StepReplayOptions& options) {
  const auto steps = StepStore::bytes(env, envs, options);
  return steps + (options.prioritized ? Priorities::bytes(options.size) : 0);
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
  if (priorities_) priorities_->save(all);
  all.add("size", at::full({}, size_, at::kLong));
  all.add("draws", at::full({}, static_cast<std::int64_t>(rng_.counter()), at::kLong));
  return all;
}

void StepReplay::restore(const NamedTensors& from) {
  store_->restore(from);
  if (priorities_) priorities_->restore(from);
  size_ = saved(from, "size").item<std::int64_t>();
  rng_ = Rng(rng_.key(), static_cast<std::uint64_t>(saved(from, "draws").item<std::int64_t>()));
}

// Makes the steps of a tick such as can be drawn, or not.
void StepReplay::offer(std::int64_t tick, bool can_be_drawn) {
  const auto B = store_->envs(), first = tick * B % store_->cells();
  for (std::int64_t b = 0; b < B; ++b) {
    const bool valid = store_->valid(first + b);
    size_ += can_be_drawn ? valid : -static_cast<int>(valid);
    row_[static_cast<std::size_t>(b)] = valid && can_be_drawn;
  }
  if (priorities_) priorities_->offer(first, {row_.get(), static_cast<std::size_t>(B)});
}

const Transitions& StepReplay::sample(std::int64_t n, double beta) {
  require(n >= 1 && n <= largest_batch_,
          "a batch of {} steps: it must be in 1 to {} (StepReplayOptions::largest_batch)", n,
          largest_batch_);
  require(beta >= 0 && beta <= 1, "beta is {}, it must be in 0 to 1", beta);
  require(size_ > 0, "the replay holds no complete step yet; append more before drawing");
  store_->prepare(n, batch_);
  drawn_.resize(static_cast<std::size_t>(n));
  if (priorities_)
    priorities_->draw(drawn_, beta, rng_, batch_.weight.data_ptr<float>());
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

void StepReplay::update_priorities(const at::Tensor& index, const at::Tensor& priority) {
  require(priorities_ != nullptr, "this replay draws all steps alike and has no priorities");
  priorities_->update(index, priority,
                      {store_->oldest() * store_->envs(), store_->end() * store_->envs()});
}

}  // namespace shoal
