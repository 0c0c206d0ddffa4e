#include "shoal/replays/sequence_replay.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>

#include "shoal/core/error.h"
#include "shoal/data/saved.h"
#include "src/replays/priorities.h"
#include "src/replays/replay_share.h"
#include "src/replays/saved_replay.h"
#include "src/replays/step_store.h"

namespace shoal {
namespace {

// A sequence needs the steps from its first row to n steps after its last row, the previous action
// before them, and perhaps a part of a rollout after them.
StepReplayOptions step_options(const SequenceReplayOptions& o, std::int64_t envs) {
  require(o.burn_in >= 0, "burn_in: found {}, expected at least 0", o.burn_in);
  require(o.length >= 1 && o.interval >= 1,
          "length and interval: found {} and {}, expected at least 1", o.length, o.interval);
  require_alpha(o.alpha);
  require(o.largest_batch >= 1, "largest_batch: found {}, expected at least 1", o.largest_batch);
  const auto least = (o.burn_in + o.length + 2 * o.interval + 1) * envs;
  require(
      o.size >= least,
      "replay size: found {} steps; sequences of {} steps of {} environments that begin every {} "
      "steps need at least {}",
      o.size, o.burn_in + o.length, envs, o.interval, least);
  return {.size = o.size,
          .n_step = o.n_step,
          .discount = o.discount,
          .largest_batch = o.largest_batch * (o.burn_in + o.length + o.n_step)};
}

// Number of rollouts whose states are kept. All that begin before the first row of the store is
// overwritten need one; if stacks are not deep, the second number is larger.
std::int64_t rollouts_kept(const EnvSpec& env, std::int64_t envs, const SequenceReplayOptions& o) {
  const auto rows = StepStore::row_count(env, envs, step_options(o, envs));
  return std::max((rows - 1) / o.interval, (o.size / envs + o.n_step) / o.interval + 2);
}

template <class Copy>
void fill(const at::Tensor& tensor, std::int64_t rows, const Copy& copy) {
  auto* to = static_cast<std::byte*>(tensor.data_ptr());
  const auto bytes = tensor.nbytes() / static_cast<std::size_t>(rows);
  for (std::int64_t i = 0; i < rows; ++i, to += bytes) copy(i, to, bytes);
}

}  // namespace

SequenceReplay::SequenceReplay(const EnvSpec& env, const NamedSpecs& state, std::int64_t envs,
                               const SequenceReplayOptions& options)
    : SequenceReplay(env, state, envs, options, ReplayShare()) {}

SequenceReplay::SequenceReplay(const EnvSpec& env, const NamedSpecs& state, std::int64_t envs,
                               const SequenceReplayOptions& options, ProcessGroup& ranks,
                               const ReplayMemory& memory)
    : SequenceReplay(env, state, envs, options, ReplayShare(ranks, memory)) {}

SequenceReplay::SequenceReplay(const EnvSpec& env, const NamedSpecs& state, std::int64_t envs,
                               const SequenceReplayOptions& options, const ReplayShare& share)
    : options_(options),
      rows_(options.burn_in + options.length + options.n_step),
      share_(std::make_unique<ReplayShare>(share)),
      store_(share.in_turn([&] {
        return std::make_unique<StepStore>(env, envs, step_options(options, envs),
                                           share.of_store());
      })),
      kept_(rollouts_kept(env, envs, options)),
      can_be_drawn_(std::make_unique<bool[]>(static_cast<std::size_t>(kept_ * envs))),
      rng_(options.seed) {
  if (options.prioritized) priorities_ = std::make_unique<Priorities>(kept_ * envs, options.alpha);
  Arena::Plan plan;
  Named<Arena::Field> fields;
  for (const auto& [name, spec] : state) fields.add(name, plan.add({kept_, envs}, spec));
  const auto arena = share.in_turn([&] {
    return share.is_shared() ? Arena(plan, share.memory()->states, share.rank() == 0) : Arena(plan);
  });
  for (const auto& [name, field] : fields) {
    states_.add(name, view(arena, field));
    own(states_.at(name)).zero_();
  }
}

SequenceReplay::~SequenceReplay() = default;

std::size_t SequenceReplay::bytes(const EnvSpec& env, const NamedSpecs& state, std::int64_t envs,
                                  const SequenceReplayOptions& options) {
  const auto sequences = rollouts_kept(env, envs, options) * envs;
  auto all = StepStore::bytes(env, envs, step_options(options, envs));
  for (const auto& [name, spec] : state) all += spec.bytes() * static_cast<std::size_t>(sequences);
  return all + (options.prioritized ? Priorities::bytes(sequences) : 0);
}

bool SequenceReplay::is_shared() const { return share_->is_shared(); }

at::Tensor SequenceReplay::own(const at::Tensor& x) const {
  return x.narrow(1, store_->first_env(), store_->own_envs());
}

// The first row of a sequence needs the action of the step before it.
std::int64_t SequenceReplay::oldest() const {
  const auto tick = store_->oldest();
  return tick == 0 ? 0 : (tick + options_.interval) / options_.interval;
}

std::int64_t SequenceReplay::end() const {
  const auto ticks = store_->end() - options_.burn_in - options_.length;
  return std::max(oldest(), ticks < 0 ? 0 : ticks / options_.interval + 1);
}

void SequenceReplay::append(const Samples& s) {
  require(s.T == options_.interval,
          "rollout: found {} steps, expected {}, the horizon for which the replay was made", s.T,
          options_.interval);
  require(s.initial_state.size() == states_.size(),
          "rollout: found {} state tensors of the agent, expected {}", s.initial_state.size(),
          states_.size());
  store_->check(s);
  const auto from = oldest(), to = end();
  const auto tick = store_->oldest_after(s.T);
  const auto first = tick == 0 ? 0 : (tick + options_.interval) / options_.interval;
  for (auto w = from; w < std::min(to, std::max(from, first)); ++w) offer(w, false);
  share_->meet();  // no rank still reads the rows that are overwritten now
  store_->append(s);
  for (std::size_t i = 0; i < states_.size(); ++i)
    own(states_[i])[rollouts_ % kept_].copy_(s.initial_state[i]);
  ++rollouts_;
  share_->meet();
  for (auto w = std::max(to, oldest()); w < end(); ++w) offer(w, true);
}

// Sets whether the sequences that begin with this rollout can be drawn.
void SequenceReplay::offer(std::int64_t rollout, bool can_be_drawn) {
  const auto B = store_->envs(), first = rollout % kept_ * B;
  auto* row = can_be_drawn_.get() + first;
  for (std::int64_t b = 0; b < B; ++b) {
    size_ -= row[b] ? 1 : 0;
    row[b] = can_be_drawn && learns(rollout, b);
    size_ += row[b] ? 1 : 0;
  }
  if (priorities_) priorities_->offer(first, {row, static_cast<std::size_t>(B)});
}

// Whether any of the steps to learn from is valid.
bool SequenceReplay::learns(std::int64_t rollout, std::int64_t b) const {
  auto cell = store_->ahead(store_->cell_of(rollout * options_.interval) + b, options_.burn_in);
  for (std::int64_t t = 0; t < options_.length; ++t, cell = store_->ahead(cell, 1))
    if (store_->valid(cell)) return true;
  return false;
}

NamedTensors SequenceReplay::save() {
  NamedTensors all;
  store_->save(all);
  save_settings(settings(), all);
  if (priorities_) {
    save_settings(priorities_->settings(), all);
    all.add("priorities", own(priorities_->powers().view({kept_, store_->envs()})));
    all.add("largest_priority", at::full({1}, priorities_->largest(), at::kDouble));
  }
  for (const auto& [name, states] : states_) all.add("states/" + name, own(states));
  all.add("can_be_drawn",
          own(at::from_blob(can_be_drawn_.get(), {kept_, store_->envs()}, at::kBool)));
  all.add("rollouts", at::full({}, rollouts_, at::kLong));
  all.add("draws", at::full({1}, static_cast<std::int64_t>(rng_.counter()), at::kLong));
  return all;
}

ReplaySettings SequenceReplay::settings() const {
  const auto& o = options_;
  return {{"burn_in", static_cast<double>(o.burn_in)},
          {"length", static_cast<double>(o.length)},
          {"interval", static_cast<double>(o.interval)}};
}

void SequenceReplay::restore(const NamedTensors& from) {
  require_saved_settings(from, settings());
  if (priorities_) require_saved_settings(from, priorities_->settings());
  store_->restore(from);
  for (const auto& [name, states] : states_) shoal::restore(from, "states/", {{name, own(states)}});
  // If the ranks did not share the replay when it was saved: the largest value of all ranks.
  const auto largest = [&](const std::string& name) {
    return share_->join(saved_of_slices(from, name, 1), 0).amax();
  };
  if (priorities_)
    priorities_->restore(share_->join(saved(from, "priorities"), 1).contiguous(),
                         largest("largest_priority").item<double>());
  const auto can_be_drawn = at::from_blob(can_be_drawn_.get(), {kept_, store_->envs()}, at::kBool);
  shoal::restore({{"can_be_drawn", share_->join(saved(from, "can_be_drawn"), 1)}}, "",
                 {{"can_be_drawn", can_be_drawn}});
  rollouts_ = saved(from, "rollouts").item<std::int64_t>();
  size_ = can_be_drawn.sum().item<std::int64_t>();
  rng_ = Rng(rng_.key(), static_cast<std::uint64_t>(largest("draws").item<std::int64_t>()));
}

const Sequences& SequenceReplay::sample(std::int64_t n, double beta) {
  require(n >= 1 && n <= options_.largest_batch,
          "batch: found {} sequences, expected 1 to {} (SequenceReplayOptions::largest_batch)", n,
          options_.largest_batch);
  require(beta >= 0 && beta <= 1, "beta: found {}, expected 0 to 1", beta);
  require(size_ > 0, "replay: found no complete sequence; append more rollouts before drawing");
  const auto part = share_->part_of(n, "sequences");
  prepare(static_cast<std::int64_t>(part.count));
  drawn_.resize(static_cast<std::size_t>(n));
  const auto B = store_->envs(), first = oldest();
  if (priorities_) {
    probability_.resize(drawn_.size());
    priorities_->draw(drawn_, rng_, probability_);
    batch_.least_probability = std::ranges::min(probability_);
    importance_weights(std::span(probability_).subspan(part.from, part.count),
                       batch_.least_probability, beta, batch_.weight.data_ptr<float>());
  } else {
    for (auto& cell : drawn_) {
      do cell = rng_.integer(first * B, end() * B) % (kept_ * B);
      while (!can_be_drawn_[static_cast<std::size_t>(cell)]);
    }
  }
  auto* name = batch_.index.data_ptr<std::int64_t>();
  for (std::int64_t i = 0; i < static_cast<std::int64_t>(part.count); ++i) {
    const auto cell = drawn_[part.from + static_cast<std::size_t>(i)];
    const auto ahead = (cell / B - first % kept_ + kept_) % kept_;
    name[i] = (first + ahead) * B + cell % B;
    lay_out(first + ahead, cell % B, i);
    for (std::size_t f = 0; f < states_.size(); ++f)
      batch_.state[f][i].copy_(states_[f][cell / B][cell % B]);
  }
  gather_rows();
  gather_steps();
  for (std::size_t f = 0; f < batch_.observation.size(); ++f)
    if (batch_.observation[f].stacked()) gather_stack(f);
  return batch_;
}

void SequenceReplay::prepare(std::int64_t n) {
  if (batch_.index.defined() && batch_.index.size(0) == n) return;
  batch_ = {};
  batch_.rows = rows_;
  batch_.burn_in = options_.burn_in;
  batch_.length = options_.length;
  const auto all = rows_ * n, learned = options_.length * n;
  const auto& rows = store_->rows();
  for (std::size_t f = 0; f < rows.observation.size(); ++f) {
    const auto& name = rows.spec().observation.name(f);
    const auto& spec = rows.spec().observation[f];
    if (spec.stack == 1)
      batch_.observation.add(name, {rows_like(spec, all), {}});
    else
      batch_.observation.add(name, {view(rows.arena(), rows.observation[f]).flatten(0, 1),
                                    at::empty({all, spec.stack}, at::kLong)});
  }
  for (const auto& [name, spec] : rows.spec().mask) batch_.mask.add(name, rows_like(spec, all));
  for (const auto& [name, spec] : rows.spec().action) {
    batch_.previous_action.add(name, rows_like(spec, all));
    batch_.action.add(name, rows_like(spec, learned));
  }
  batch_.previous_reward = at::zeros({all});
  batch_.is_first = at::zeros({all}, at::kBool);
  for (const auto& [name, states] : states_) {
    auto shape = states.sizes().vec();
    shape.erase(shape.begin());
    shape[0] = n;
    batch_.state.add(name, at::zeros(shape, states.options()));
  }
  batch_.reward = at::zeros({learned});
  batch_.discount = at::zeros({learned});
  batch_.next = at::zeros({learned}, at::kLong);
  batch_.valid = at::zeros({learned}, at::kBool);
  batch_.weight = at::ones({n});
  batch_.index = at::zeros({n}, at::kLong);
  places_.resize(static_cast<std::size_t>(all));
}

// Places the steps of a sequence in rows; a final observation gets a row after its step.
void SequenceReplay::lay_out(std::int64_t rollout, std::int64_t b, std::int64_t i) {
  const auto n = batch_.index.size(0);
  auto cell = store_->cell_of(rollout * options_.interval) + b;
  bool last = false;
  for (std::int64_t row = 0; row < rows_; ++row) {
    places_[static_cast<std::size_t>(row * n + i)] = {cell, last};
    const auto& follows = store_->follows(cell);
    last = !last && follows.last >= 0 && follows.steps == 1;
    if (!last) cell = store_->ahead(cell, 1);
  }
}

// Gathers the inputs of the agent in every row, except frame stacks.
void SequenceReplay::gather_rows() {
  const auto& rows = store_->rows();
  const auto all = static_cast<std::int64_t>(places_.size());
  const auto place = [&](std::int64_t i) { return places_[static_cast<std::size_t>(i)]; };
  for (std::size_t f = 0; f < rows.observation.size(); ++f) {
    if (batch_.observation[f].stacked()) continue;
    const auto from = store_->column(rows.observation[f]);
    fill(batch_.observation[f].data, all, [&](auto i, auto* to, auto bytes) {
      const auto [cell, last] = place(i);
      std::memcpy(to, last ? store_->final_frame(f, cell) : from.at(cell), bytes);
    });
  }
  for (std::size_t f = 0; f < rows.mask.size(); ++f) {
    const auto from = store_->column(rows.mask[f]);
    fill(batch_.mask[f], all, [&](auto i, auto* to, auto bytes) {
      const auto [cell, last] = place(i);
      std::memcpy(to, last ? store_->final_mask(f, cell) : from.at(cell), bytes);
    });
  }
  const auto starts = store_->column(rows.is_first);
  fill(batch_.is_first, all, [&](auto i, auto* to, auto) {
    *to = place(i).last ? std::byte{0} : *starts.at(place(i).cell);
  });
  const auto previous = [&](const Arena::Field& field, const at::Tensor& into) {
    const auto from = store_->column(field);
    fill(into, all, [&](auto i, auto* to, auto bytes) {
      const auto [cell, last] = place(i);
      if (last)
        std::memcpy(to, from.at(cell), bytes);
      else if (*starts.at(cell) != std::byte{0})
        std::memset(to, 0, bytes);
      else
        std::memcpy(to, from.at(store_->ahead(cell, -1)), bytes);
    });
  };
  for (std::size_t f = 0; f < rows.action.size(); ++f)
    previous(rows.action[f], batch_.previous_action[f]);
  previous(rows.reward, batch_.previous_reward);
}

void SequenceReplay::gather_stack(std::size_t f) {
  const auto frames = store_->column(store_->rows().observation[f]);
  auto& index = batch_.observation[f].index;
  const auto stack = index.size(1);
  auto* to = index.data_ptr<std::int64_t>();
  auto spare = store_->spare();
  for (const auto [cell, last] : places_) {
    if (last) {
      std::memcpy(frames.data + static_cast<std::size_t>(spare) * frames.bytes,
                  store_->final_frame(f, cell), frames.bytes);
      to[stack - 1] = spare++;
      store_->go_back(to, stack - 1, cell);
    } else {
      store_->go_back(to, stack, cell);
    }
    to += stack;
  }
}

// Gathers actions and outcomes of the steps to learn from.
void SequenceReplay::gather_steps() {
  const auto n = batch_.index.size(0), learned = options_.length * n;
  const auto* places = places_.data() + options_.burn_in * n;
  const auto& rows = store_->rows();
  for (std::size_t f = 0; f < rows.action.size(); ++f) {
    const auto from = store_->column(rows.action[f]);
    fill(batch_.action[f], learned,
         [&](auto i, auto* to, auto bytes) { std::memcpy(to, from.at(places[i].cell), bytes); });
  }
  auto *reward = batch_.reward.data_ptr<float>(), *discount = batch_.discount.data_ptr<float>();
  auto* next = batch_.next.data_ptr<std::int64_t>();
  auto* valid = batch_.valid.data_ptr<bool>();
  for (std::int64_t i = 0; i < learned; ++i) {
    const auto& follows = store_->follows(places[i].cell);
    valid[i] = follows.valid && !places[i].last;
    reward[i] = valid[i] ? follows.reward : 0;
    discount[i] = valid[i] ? follows.discount : 0;
    next[i] = valid[i] ? follows.steps : 0;
  }
}

void SequenceReplay::update_priorities(const at::Tensor& index, const at::Tensor& priority) {
  require(priorities_ != nullptr, "this replay draws uniformly and has no priorities");
  const auto B = store_->envs();
  priorities_->update(share_->join(index, 0), share_->join(priority, 0), {oldest() * B, end() * B});
}

}  // namespace shoal
