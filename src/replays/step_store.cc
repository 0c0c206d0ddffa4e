#include "src/replays/step_store.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <memory>

#include "shoal/core/error.h"
#include "shoal/data/saved.h"

namespace shoal {
namespace {

// Rows after the ring for the final observations of a batch of all ranks, if batches refer to the
// ring's frames.
std::int64_t spare_rows(const EnvSpec& env, std::int64_t envs, const StepReplayOptions& o) {
  require(o.largest_batch >= 1, "largest_batch: found {}, expected at least 1", o.largest_batch);
  return rows_back(env) == 0 ? 0 : (o.largest_batch + envs - 1) / envs;
}

std::byte* row_of(const at::Tensor& tensor, std::int64_t t) {
  return static_cast<std::byte*>(tensor.data_ptr()) +
         t * tensor.stride(0) * static_cast<std::int64_t>(tensor.element_size());
}

}  // namespace

at::Tensor rows_like(const ArraySpec& spec, std::int64_t n) {
  auto shape = spec.shape;
  shape.insert(shape.begin(), n);
  return at::zeros(shape, at::TensorOptions().dtype(torch_dtype(spec.dtype)));
}

// The fields of a rollout that follow() reads.
struct StepStore::Outcomes {
  const float* reward;
  const bool *terminated, *truncated, *valid;
};

std::int64_t StepStore::row_count(const EnvSpec& env, std::int64_t envs,
                                  const StepReplayOptions& o) {
  require(envs >= 1, "environments of a replay: found {}, expected at least 1", envs);
  require(o.size >= envs,
          "replay size: found {} steps for {} environments, expected at least one for each", o.size,
          envs);
  require(o.n_step >= 1 && o.n_step <= 255, "n_step: found {}, expected 1 to 255", o.n_step);
  require(o.discount >= 0 && o.discount <= 1, "discount: found {}, expected 0 to 1", o.discount);
  return (o.size + envs - 1) / envs + o.n_step + rows_back(env);
}

StepStore::StepStore(const EnvSpec& env, std::int64_t envs, const StepReplayOptions& o,
                     const StoreShare& share)
    : n_step_(o.n_step),
      discount_(o.discount),
      history_(rows_back(env)),
      ring_(row_count(env, envs, o)),
      rows_(plan_, rollout_spec(env), ring_ + spare_rows(env, envs, o), envs),
      follows_field_(plan_.add_bytes(static_cast<std::size_t>(ring_ * envs) * sizeof(Follows))),
      arena_(share.memory == nullptr
                 ? Arena(plan_)
                 : Arena(plan_, share.memory->steps, /*first=*/share.rank == 0)),
      envs_(envs),
      cells_(ring_ * envs),
      own_(envs / share.ranks),
      first_(own_ * share.rank),
      spare_(cells_ + o.largest_batch / share.ranks * share.rank),
      follows_(reinterpret_cast<Follows*>(arena_.data(follows_field_))),
      // Twice the ring, because a rollout's places are added before those it overwrites are freed.
      finals_(rows_.spec(), share.memory == nullptr ? nullptr : &share.memory->last_observations,
              share.rank, share.ranks, 2 * ring_ * own_),
      open_(static_cast<std::size_t>(own_), 0) {
  require(own_ * share.ranks == envs,
          "environments of a replay: found {}, expected a multiple of {} ranks", envs, share.ranks);
  rows_.attach(arena_);
  for (std::int64_t row = 0; row < ring_; ++row)
    std::uninitialized_default_construct_n(follows_ + row * envs_ + first_, own_);
  for (int i = 0; i <= n_step_; ++i)
    powers_.push_back(i == 0 ? 1.0F : powers_.back() * static_cast<float>(o.discount));
}

std::size_t StepStore::bytes(const EnvSpec& env, std::int64_t envs, const StepReplayOptions& o) {
  Arena::Plan plan;
  const auto ring = row_count(env, envs, o);
  const Rows rows(plan, rollout_spec(env), ring + spare_rows(env, envs, o), envs);
  return plan.bytes() + static_cast<std::size_t>(ring * envs) * sizeof(Follows);
}

// The row after the newest complete one already holds an observation.
std::int64_t StepStore::oldest_after(std::int64_t more) const {
  const auto kept = ticks_ + more - ring_ + 1;
  return kept <= 0 ? 0 : kept + history_;
}

std::int64_t StepStore::end() const { return std::max(oldest(), ticks_ - n_step_ + 1); }

void StepStore::check(const Samples& s) const {
  const auto most = ring_ - n_step_ - history_;
  require(
      s.B == own_,
      "rollout: found {} environments, expected {}, for which the replay was made (sampler.envs)",
      s.B, own_);
  require(s.T <= most, "rollout: found {} steps of each environment, expected at most {}", s.T,
          most);
  require(s.reward.is_cpu(),
          "rollout: found it on {}, expected it on the CPU; make the sampler with host_rollouts",
          s.reward.device().str());
  const auto check_fields = [&](const char* what, const NamedTensors& found,
                                const Named<Arena::Field>& wanted) {
    require(found.size() == wanted.size(), "rollout: found {} fields of its {}, expected {}",
            found.size(), what, wanted.size());
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      const auto& spec = wanted[i].spec;
      const auto row = found[i][0];
      auto shape = spec.shape;
      shape.insert(shape.begin(), own_);
      require(row.scalar_type() == torch_dtype(spec.dtype) && row.sizes() == shape &&
                  row.is_contiguous(),
              "{} '{}' of the rollout: found rows of {} [{}], expected {} [{}]", what,
              wanted.name(i), c10::toString(row.scalar_type()), fmt::join(row.sizes(), ", "),
              name_of(spec.dtype), fmt::join(shape, ", "));
    }
  };
  check_fields("observation", s.observation, rows_.observation);
  check_fields("action", s.action, rows_.action);
  check_fields("mask", s.mask, rows_.mask);
  require(s.final_obs.size() == 0 || s.final_obs.mask.size() == rows_.mask.size(),
          "rollout: found {} action masks of its final observations, expected {}",
          s.final_obs.mask.size(), rows_.mask.size());
  const auto* first = s.is_first.const_data_ptr<bool>();
  for (std::int64_t b = 0; ticks_ > 0 && b < s.B; ++b)
    require(first[b] || follows_[cell_of(ticks_ - 1) + first_ + b].valid,
            "environment {} continues its episode after invalid steps: its last rollout was "
            "preempted (sampler.preempt_share), but a replay needs whole rollouts",
            b);
  for (std::int64_t b = 0; next_tick_ && s.first_tick != *next_tick_ && b < s.B; ++b)
    require(
        first[b],
        "the rollout begins at tick {} and environment {} is in the middle of an episode, which "
        "the replay has up to tick {}; a replay needs every rollout (async.stale = use)",
        s.first_tick, b, *next_tick_);
}

void StepStore::append(const Samples& s) {
  const Outcomes rollout{s.reward.const_data_ptr<float>(), s.terminated.const_data_ptr<bool>(),
                         s.truncated.const_data_ptr<bool>(), s.valid.const_data_ptr<bool>()};
  rollout_finals_.assign(static_cast<std::size_t>(s.T * s.B), -1);
  for (std::int64_t k = 0; k < s.final_obs.size(); ++k) {
    const auto i = static_cast<std::size_t>(k);
    const auto at = s.final_obs.t[i] * s.B + s.final_obs.b[i];
    if (rollout.truncated[at] && !rollout.terminated[at])
      rollout_finals_[static_cast<std::size_t>(at)] = finals_.add(s.final_obs, k);
  }
  next_tick_ = s.first_tick + s.T;
  if (ticks_ > 0) cut_episodes(s);
  write_row(s, 0);  // its observation may differ from the last row of the previous rollout
  if (ticks_ == 0) std::memset(rows_.element(rows_.is_first, 0, first_).data(), 1, own_);
  for (std::int64_t t = 0; t < s.T; ++t) {
    ++ticks_;
    forget(ticks_);
    write_row(s, t + 1);
    for (std::int64_t b = 0; b < s.B; ++b) follow(rollout, t * s.B + b, b);
  }
}

// Environments that were reset between two rollouts (by Sampler::save()): their episodes are
// truncated at the end of the last rollout, with the observation of its last row.
void StepStore::cut_episodes(const Samples& s) {
  const auto* first = s.is_first.const_data_ptr<bool>();
  for (std::int64_t b = 0; b < own_; ++b)
    if (first[b]) cut(cell_of(ticks_) + first_ + b, cell_of(ticks_ - 1) + first_ + b, b);
}

// Truncates the episode at `cell`, a step of this rank's environment b, with the observation of
// cell `seen` as the final one, unless the episode has already ended there.
void StepStore::cut(std::int64_t seen, std::int64_t cell, std::int64_t b) {
  const auto* terminated = reinterpret_cast<const bool*>(column(rows_.terminated).data);
  const auto* truncated = reinterpret_cast<const bool*>(column(rows_.truncated).data);
  if (!follows_[cell].valid || terminated[cell] || truncated[cell]) return;
  const auto place = finals_.add();
  for (std::size_t f = 0; f < rows_.observation.size(); ++f) {
    const auto from = column(rows_.observation[f]);
    std::memcpy(finals_.frame(f, place), from.at(seen), from.bytes);
  }
  for (std::size_t f = 0; f < rows_.mask.size(); ++f) {
    const auto from = column(rows_.mask[f]);
    std::memcpy(finals_.mask(f, place), from.at(seen), from.bytes);
  }
  for (int i = 1; i <= n_step_ && follows_[cell].steps == i; ++i, cell = ahead(cell, -1))
    follows_[cell].last = place;
  open_[static_cast<std::size_t>(b)] = 0;
}

// Clears the row of this tick.
void StepStore::forget(std::int64_t tick) {
  auto* row = follows_ + cell_of(tick) + first_;
  for (std::int64_t b = 0; b < own_; ++b) {
    // Earlier steps refer to the same place; the last one frees it.
    if (row[b].last >= 0 && row[b].steps == 1) finals_.remove(row[b].last);
    row[b] = {};
  }
}

// Writes row t of a rollout to the newest tick. The last row has no action yet.
void StepStore::write_row(const Samples& s, std::int64_t t) {
  const auto cell = cell_of(ticks_) + first_;
  const auto copy = [&](const at::Tensor& from, const Arena::Field& field) {
    if (t >= from.size(0)) return;
    const auto to = column(field);
    std::memcpy(to.data + static_cast<std::size_t>(cell) * to.bytes, row_of(from, t),
                to.bytes * static_cast<std::size_t>(own_));
  };
  for (std::size_t i = 0; i < rows_.observation.size(); ++i)
    copy(s.observation[i], rows_.observation[i]);
  for (std::size_t i = 0; i < rows_.mask.size(); ++i) copy(s.mask[i], rows_.mask[i]);
  for (std::size_t i = 0; i < rows_.action.size(); ++i) copy(s.action[i], rows_.action[i]);
  copy(s.reward, rows_.reward);
  copy(s.terminated, rows_.terminated);
  copy(s.truncated, rows_.truncated);
  copy(s.is_first, rows_.is_first);
  copy(s.valid, rows_.valid);
}

// Adds the outcome of a rollout's step, that of the tick before the newest, to the step itself and
// to earlier steps with fewer than n rewards.
void StepStore::follow(const Outcomes& rollout, std::int64_t at, std::int64_t b) {
  auto cell = cell_of(ticks_ - 1) + first_ + b;
  follows_[cell].valid = rollout.valid[at];
  if (!rollout.valid[at]) {
    // The worker died in this step: the episode is truncated at its observation.
    const auto* first = reinterpret_cast<const bool*>(column(rows_.is_first).data);
    if (rollout.truncated[at] && !first[cell]) cut(cell, ahead(cell, -1), b);
    return;
  }
  const bool terminated = rollout.terminated[at], over = terminated || rollout.truncated[at];
  auto& open = open_[static_cast<std::size_t>(b)];
  ++open;
  for (std::size_t i = 0; i < static_cast<std::size_t>(open); ++i, cell = ahead(cell, -1)) {
    auto& one = follows_[cell];
    one.reward += powers_[i] * rollout.reward[at];
    one.discount = terminated ? 0 : powers_[i + 1];
    one.last = rollout_finals_[static_cast<std::size_t>(at)];
    ++one.steps;
  }
  if (over)
    open = 0;
  else if (open == n_step_)
    --open;
}

// The part of the ring that has been written to.
NamedTensors StepStore::rows_in_use() const {
  const auto rows = std::min(ring_, ticks_ + 1);
  auto all = first_rows(rows_, rows);
  all.add("rows/terminated", view(arena_, rows_.terminated).narrow(0, 0, rows));
  all.add("rows/truncated", view(arena_, rows_.truncated).narrow(0, 0, rows));
  all.add("follows", at::from_blob(follows_, {rows, envs_, sizeof(Follows)}, at::kByte));
  if (own_ < envs_)
    for (auto& [name, tensor] : all) tensor = tensor.narrow(1, first_, own_);
  return all;
}

void StepStore::save(NamedTensors& to) {
  for (auto& [name, tensor] : rows_in_use()) to.add(name, tensor);
  finals_.save(to);
  save_settings(settings(), to);
  to.add("open", at::from_blob(open_.data(), {own_}, at::kInt));
  to.add("ticks", at::from_blob(&ticks_, {}, at::kLong));
}

ReplaySettings StepStore::settings() const {
  return {{"n_step", n_step_}, {"discount", discount_}};
}

void StepStore::restore(const NamedTensors& from) {
  require_saved_settings(from, settings());
  const auto ticks = saved(from, "ticks").item<std::int64_t>();
  const auto open = saved(from, "open");
  require(open.ge(0).logical_and(open.lt(n_step_)).all().item<bool>(),
          "saved replay: found a step with {} rewards to come, expected 0 to {}",
          open.max().item<std::int64_t>(), n_step_ - 1);
  ticks_ = ticks;
  next_tick_.reset();  // the resumed sampler may count from another tick
  auto targets = rows_in_use();
  targets.add("open", at::from_blob(open_.data(), {own_}, at::kInt));
  shoal::restore(from, "", targets);
  finals_.restore(from);
}

void StepStore::prepare(std::int64_t n, Transitions& batch) const {
  if (batch.index.defined() && batch.index.size(0) == n) return;
  batch = {};
  for (const auto& [name, spec] : rows_.spec().observation) {
    if (spec.stack == 1) {
      batch.observation.add(name, {rows_like(spec, n), {}});
      batch.next_observation.add(name, {rows_like(spec, n), {}});
      continue;
    }
    const auto frames = view(arena_, rows_.observation.at(name)).flatten(0, 1);
    for (auto* observations : {&batch.observation, &batch.next_observation})
      observations->add(name, {frames, at::empty({n, spec.stack}, at::kLong)});
  }
  for (const auto& [name, spec] : rows_.spec().action) batch.action.add(name, rows_like(spec, n));
  for (const auto& [name, spec] : rows_.spec().mask) {
    batch.mask.add(name, rows_like(spec, n));
    batch.next_mask.add(name, rows_like(spec, n));
  }
  batch.reward = at::empty({n});
  batch.discount = at::empty({n});
  batch.weight = at::ones({n});
  batch.index = at::empty({n}, at::kLong);
}

// Random cells are not cached, so their memory is prefetched well before it is copied.
void StepStore::gather(std::span<const std::int64_t> cells, Transitions& batch) const {
  for (const auto cell : cells) __builtin_prefetch(follows_ + cell);
  gather_plain(cells, batch);
  gather_next_masks(cells, batch);
  for (std::size_t f = 0; f < rows_.observation.size(); ++f)
    if (rows_.observation[f].spec.stack > 1) gather_stack(cells, f, batch);
}

// Gathers all fields except frame stacks and next masks.
void StepStore::gather_plain(std::span<const std::int64_t> cells, Transitions& batch) const {
  const auto copy = [&](const Arena::Field& field, const at::Tensor& to_batch) {
    const auto from = column(field);
    auto* to = static_cast<std::byte*>(to_batch.data_ptr());
    for (const auto cell : cells) __builtin_prefetch(from.at(cell));
    for (const auto cell : cells) {
      std::memcpy(to, from.at(cell), from.bytes);
      to += from.bytes;
    }
  };
  for (std::size_t f = 0; f < rows_.action.size(); ++f) copy(rows_.action[f], batch.action[f]);
  for (std::size_t f = 0; f < rows_.mask.size(); ++f) copy(rows_.mask[f], batch.mask[f]);
  auto* reward = batch.reward.data_ptr<float>();
  auto* discount = batch.discount.data_ptr<float>();
  for (std::size_t i = 0; i < cells.size(); ++i) {
    reward[i] = follows_[cells[i]].reward;
    discount[i] = follows_[cells[i]].discount;
  }
  for (std::size_t f = 0; f < rows_.observation.size(); ++f) {
    if (rows_.observation[f].spec.stack > 1) continue;
    copy(rows_.observation[f], batch.observation[f].data);
    const auto from = column(rows_.observation[f]);
    auto* to = static_cast<std::byte*>(batch.next_observation[f].data.data_ptr());
    for (const auto cell : cells) __builtin_prefetch(from.at(ahead(cell, follows_[cell].steps)));
    for (const auto cell : cells) {
      const auto& next = follows_[cell];
      std::memcpy(to, next.last >= 0 ? final_frame(f, cell) : from.at(ahead(cell, next.steps)),
                  from.bytes);
      to += from.bytes;
    }
  }
}

void StepStore::gather_next_masks(std::span<const std::int64_t> cells, Transitions& batch) const {
  for (std::size_t f = 0; f < rows_.mask.size(); ++f) {
    const auto from = column(rows_.mask[f]);
    auto* to = static_cast<std::byte*>(batch.next_mask[f].data_ptr());
    for (const auto cell : cells) {
      const auto& next = follows_[cell];
      std::memcpy(to, next.last >= 0 ? final_mask(f, cell) : from.at(ahead(cell, next.steps)),
                  from.bytes);
      to += from.bytes;
    }
  }
}

// The stack as the agent saw it.
void StepStore::go_back(std::int64_t* to, std::int64_t places, std::int64_t cell) const {
  const auto* first = reinterpret_cast<const bool*>(column(rows_.is_first).data);
  bool blank = false;
  for (auto s = places - 1; s >= 0; --s, cell = ahead(cell, -1)) {
    to[s] = blank ? -1 : cell;
    blank = blank || first[cell];
  }
}

// Writes the frame indices of both stacks.
void StepStore::gather_stack(std::span<const std::int64_t> cells, std::size_t f,
                             Transitions& batch) const {
  const auto frames = column(rows_.observation[f]);
  const auto stack = std::int64_t{rows_.observation[f].spec.stack};
  auto* index = batch.observation[f].index.data_ptr<std::int64_t>();
  auto* next_index = batch.next_observation[f].index.data_ptr<std::int64_t>();
  auto spare = spare_;
  for (const auto cell : cells) {
    const auto& next = follows_[cell];
    go_back(index, stack, cell);
    if (next.last >= 0) {
      std::memcpy(frames.data + static_cast<std::size_t>(spare) * frames.bytes,
                  final_frame(f, cell), frames.bytes);
      next_index[stack - 1] = spare++;
      go_back(next_index, stack - 1, ahead(cell, next.steps - 1));
    } else {
      go_back(next_index, stack, ahead(cell, next.steps));
    }
    index += stack, next_index += stack;
  }
}

}  // namespace shoal
