#include "src/replays/step_store.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <cstring>
#include <new>

#include "shoal/core/error.h"

namespace shoal {
namespace {

RowSpec row_spec(const EnvSpec& env) {
  RowSpec spec{.observation = env.observation, .action = {}};
  for (const auto& [name, action] : env.action) spec.action.add(name, action.array());
  if (env.action_mask)
    spec.mask = ArraySpec{.dtype = DType::kBool, .shape = {env.action[0].choices.at(0)}};
  return spec;
}

std::int64_t history_of(const EnvSpec& env) {
  std::int64_t history = 0;
  for (const auto& [name, spec] : env.observation)
    history = std::max<std::int64_t>(history, spec.stack - 1);
  return history;
}

// So that `size` steps can be drawn; a row more holds the newest observation.
std::int64_t row_count(const EnvSpec& env, std::int64_t envs, const ReplayOptions& o) {
  require(envs >= 1, "a replay of {} environments: at least 1 is needed", envs);
  require(o.size >= envs, "a replay of {} steps of {} environments: at least one of each is needed",
          o.size, envs);
  require(o.n_step >= 1 && o.n_step <= 255, "n_step is {}, it must be in 1 to 255", o.n_step);
  require(o.discount >= 0 && o.discount <= 1, "discount is {}, it must be in 0 to 1", o.discount);
  return (o.size + envs - 1) / envs + o.n_step + history_of(env);
}

at::Tensor make(std::int64_t n, const ArraySpec& spec) {
  auto shape = spec.shape;
  shape.insert(shape.begin(), n);
  return at::empty(shape, at::TensorOptions().dtype(torch_dtype(spec.dtype)));
}

// Frames of one drawn step: those of its stack, and those that follow up to n steps later, as far
// as both stacks need them.
std::int64_t frames_of(const ArraySpec& spec, int n_step) {
  return spec.stack + std::min(spec.stack, n_step);
}

std::byte* element(const at::Tensor& of, std::int64_t i) {
  return static_cast<std::byte*>(of.data_ptr()) +
         i * of.stride(0) * static_cast<std::int64_t>(of.element_size());
}

}  // namespace

// One step of a batch: where it goes, and where it comes from.
struct StepStore::Drawn {
  std::int64_t place;  // in the batch
  std::int64_t tick, b;
  Step step;
};

StepStore::StepStore(const EnvSpec& env, std::int64_t envs, const ReplayOptions& o)
    : n_step_(o.n_step),
      history_(history_of(env)),
      rows_(plan_, row_spec(env), row_count(env, envs, o), envs),
      steps_(plan_.add_bytes(static_cast<std::size_t>(rows_.count() * envs) * sizeof(Step))),
      arena_(plan_),
      finals_(env.observation),
      open_(static_cast<std::size_t>(envs), 0) {
  rows_.attach(arena_);
  auto* all = arena_.data(steps_);
  for (std::int64_t i = 0; i < rows_.count() * envs; ++i) new (all + i * sizeof(Step)) Step;
  for (int i = 0; i <= n_step_; ++i)
    powers_.push_back(i == 0 ? 1.0F : powers_.back() * static_cast<float>(o.discount));
}

std::size_t StepStore::bytes(const EnvSpec& env, std::int64_t envs, const ReplayOptions& o) {
  Arena::Plan plan;
  const Rows rows(plan, row_spec(env), row_count(env, envs, o), envs);
  return plan.bytes() + static_cast<std::size_t>(rows.count() * envs) * sizeof(Step);
}

// The row after the newest complete one holds an observation already.
std::int64_t StepStore::oldest_after(std::int64_t more) const {
  const auto kept = ticks_ + more - rows_.count() + 1;
  return kept <= 0 ? 0 : kept + history_;
}

std::int64_t StepStore::end() const { return std::max(oldest(), ticks_ - n_step_ + 1); }

void StepStore::check(const Samples& s) const {
  const auto most = rows_.count() - n_step_ - history_;
  require(s.B == envs(), "a window of {} environments, the replay has {}", s.B, envs());
  require(s.T <= most, "a window of {} steps of each environment, the replay holds {}", s.T, most);
  require(s.reward.is_cpu(), "the window is on {}, the replay takes windows on the CPU",
          s.reward.device().str());
}

void StepStore::append(const Samples& s) {
  check(s);
  window_finals_.assign(static_cast<std::size_t>(s.T * s.B), -1);
  const auto* terminated = s.terminated.const_data_ptr<bool>();
  const auto* truncated = s.truncated.const_data_ptr<bool>();
  for (std::int64_t k = 0; k < s.finals.size(); ++k) {
    const auto at =
        s.finals.t[static_cast<std::size_t>(k)] * s.B + s.finals.b[static_cast<std::size_t>(k)];
    if (truncated[at] && !terminated[at])
      window_finals_[static_cast<std::size_t>(at)] = finals_.add(s.finals, k);
  }
  write_row(s, 0);  // its observation may be another than at the end of the last window
  for (std::int64_t t = 0; t < s.T; ++t) {
    ++ticks_;
    forget(ticks_);
    write_row(s, t + 1);
    for (std::int64_t b = 0; b < s.B; ++b) follow(s, t, b);
  }
}

// What the row of this tick has held so far.
void StepStore::forget(std::int64_t tick) {
  for (std::int64_t b = 0; b < envs(); ++b) {
    auto& old = step(tick, b);
    if (old.last >= 0 && old.steps == 1) finals_.remove(old.last);  // others shared it
    old = {};
  }
}

// Row t of a window goes to the newest tick; the last row of it has no action yet.
void StepStore::write_row(const Samples& s, std::int64_t t) {
  const auto row = row_of(ticks_);
  const auto copy = [&](const at::Tensor& from, const Arena::Field& field) {
    if (t >= from.size(0)) return;
    const auto bytes = field.spec.bytes() * static_cast<std::size_t>(envs());
    std::memcpy(rows_.element(field, row, 0).data(), element(from, t), bytes);
  };
  for (std::size_t i = 0; i < rows_.observation.size(); ++i)
    copy(s.observation[i], rows_.observation[i]);
  for (std::size_t i = 0; i < rows_.mask.size(); ++i) copy(s.mask[i], rows_.mask[i]);
  for (std::size_t i = 0; i < rows_.action.size(); ++i) copy(s.action[i], rows_.action[i]);
  copy(s.reward, rows_.reward);
  copy(s.terminated, rows_.terminated);
  copy(s.truncated, rows_.truncated);
  copy(s.first, rows_.first);
  copy(s.valid, rows_.valid);
}

// Adds what came of step t of a window, which is that of the tick before the newest, to it and to
// those before that have not seen n rewards.
void StepStore::follow(const Samples& s, std::int64_t t, std::int64_t b) {
  const auto tick = ticks_ - 1, at = t * s.B + b;
  auto& own = step(tick, b);
  own = {};
  own.valid = s.valid.const_data_ptr<bool>()[at];
  if (!own.valid) return;
  const float reward = s.reward.const_data_ptr<float>()[at];
  const bool terminated = s.terminated.const_data_ptr<bool>()[at];
  const bool over = terminated || s.truncated.const_data_ptr<bool>()[at];
  auto& open = open_[static_cast<std::size_t>(b)];
  ++open;
  for (int i = 0; i < open; ++i) {
    auto& one = step(tick - i, b);
    const auto power = static_cast<std::size_t>(i);
    one.reward += powers_[power] * reward;
    one.discount = terminated ? 0 : powers_[power + 1];
    one.last = window_finals_[static_cast<std::size_t>(at)];
    ++one.steps;
  }
  if (over)
    open = 0;
  else if (open == n_step_)
    --open;
}

void StepStore::prepare(std::int64_t n, Transitions& batch) const {
  if (batch.index.defined() && batch.index.size(0) == n) return;
  batch = {};
  for (const auto& [name, spec] : rows_.spec().observation) {
    if (spec.stack == 1) {
      batch.observation.add(name, {make(n, spec), {}});
      batch.next_observation.add(name, {make(n, spec), {}});
      continue;
    }
    const auto frames = make(n * frames_of(spec, n_step_), spec);
    for (auto* observations : {&batch.observation, &batch.next_observation})
      observations->add(name, {frames, at::empty({n, spec.stack}, at::kLong)});
  }
  for (const auto& [name, spec] : rows_.spec().action) batch.action.add(name, make(n, spec));
  for (const auto& [name, spec] : rows_.spec().mask) {
    batch.mask.add(name, make(n, spec));
    batch.next_mask.add(name, make(n, spec));
  }
  batch.reward = at::empty({n});
  batch.discount = at::empty({n});
  batch.weight = at::ones({n});
  batch.index = at::empty({n}, at::kLong);
}

// Begins to load what a step is made of: drawn at random, none of it is near.
void StepStore::fetch(std::int64_t name) const {
  const auto tick = name / envs(), b = name % envs();
  __builtin_prefetch(&step(tick, b));
  const auto load = [&](const Arena::Field& field, std::int64_t at) {
    __builtin_prefetch(rows_.element(field, row_of(at), b).data());
  };
  for (const auto& [field_name, field] : rows_.observation) {
    if (field.spec.stack > 1) continue;  // large, and loaded by itself
    load(field, tick);
    load(field, tick + n_step_);
  }
  for (const auto& [field_name, field] : rows_.action) load(field, tick);
}

void StepStore::gather(std::span<const std::int64_t> names, Transitions& batch) const {
  auto* reward = batch.reward.data_ptr<float>();
  auto* discount = batch.discount.data_ptr<float>();
  for (const auto name : names) fetch(name);
  std::size_t bytes = 1;
  for (const auto& [name, spec] : rows_.spec().observation)
    bytes += spec.bytes() * static_cast<std::size_t>(frames_of(spec, n_step_));
  constexpr std::size_t kWorthAThread = 1 << 20;
  const auto grain = static_cast<std::int64_t>(kWorthAThread / bytes + 1);
  at::parallel_for(0, std::ssize(names), grain, [&](std::int64_t from, std::int64_t to) {
    for (auto i = from; i < to; ++i) {
      const auto name = names[static_cast<std::size_t>(i)];
      const auto tick = name / envs(), b = name % envs();
      const Drawn drawn{i, tick, b, step(tick, b)};
      reward[i] = drawn.step.reward;
      discount[i] = drawn.step.discount;
      for (std::size_t f = 0; f < rows_.observation.size(); ++f) {
        if (rows_.observation[f].spec.stack == 1)
          gather_field(f, drawn, batch);
        else
          gather_stack(f, drawn, batch);
      }
      const auto copy = [&](const Arena::Field& field, std::int64_t at,
                            const at::Tensor& to_batch) {
        const auto bytes_from = rows_.element(field, row_of(at), b);
        std::memcpy(element(to_batch, i), bytes_from.data(), bytes_from.size());
      };
      for (std::size_t f = 0; f < rows_.action.size(); ++f)
        copy(rows_.action[f], tick, batch.action[f]);
      for (std::size_t f = 0; f < rows_.mask.size(); ++f) {
        copy(rows_.mask[f], tick, batch.mask[f]);
        copy(rows_.mask[f], tick + drawn.step.steps, batch.next_mask[f]);
        if (drawn.step.last >= 0)
          std::memset(element(batch.next_mask[f], i), 1, rows_.mask[f].spec.bytes());
      }
    }
  });
}

void StepStore::gather_field(std::size_t f, const Drawn& drawn, Transitions& batch) const {
  const auto& field = rows_.observation[f];
  const auto bytes = field.spec.bytes();
  std::memcpy(element(batch.observation[f].data, drawn.place),
              rows_.element(field, row_of(drawn.tick), drawn.b).data(), bytes);
  const auto* next =
      drawn.step.last >= 0
          ? finals_.frame(f, drawn.step.last)
          : rows_.element(field, row_of(drawn.tick + drawn.step.steps), drawn.b).data();
  std::memcpy(element(batch.next_observation[f].data, drawn.place), next, bytes);
}

// Copies the frames of both stacks, each of them once, and says which ones they are: going back in
// time until the first one of the episode, as an observation is when it is acted on.
void StepStore::gather_stack(std::size_t f, const Drawn& drawn, Transitions& batch) const {
  const auto& field = rows_.observation[f];
  const auto stack = std::int64_t{field.spec.stack}, bytes = std::ssize(rows_.element(field, 0, 0));
  const auto block = drawn.place * frames_of(field.spec, n_step_);
  const auto next_tick = drawn.tick + drawn.step.steps;
  auto* frames = static_cast<std::byte*>(batch.observation[f].data.data_ptr());
  // Frames up to the step's own lie first, then those after it that are in the next stack.
  const auto later = std::max(drawn.tick, next_tick - stack);
  const auto place_of = [&](std::int64_t tick) {
    return block + stack + (tick <= drawn.tick ? tick - drawn.tick : tick - later) - 1;
  };
  const auto copy = [&](const std::byte* from, std::int64_t place) {
    std::memcpy(frames + place * bytes, from, static_cast<std::size_t>(bytes));
  };
  const auto fill = [&](at::Tensor& index, std::int64_t newest, std::int64_t copied_until,
                        const std::byte* final_frame) {
    auto* to = index.data_ptr<std::int64_t>() + drawn.place * stack;
    bool blank = false;
    for (std::int64_t s = stack - 1, tick = newest; s >= 0; --s, --tick) {
      to[s] = blank ? -1 : place_of(tick);
      const bool is_final = final_frame != nullptr && tick == newest;
      if (!blank && tick > copied_until)
        copy(is_final ? final_frame : rows_.element(field, row_of(tick), drawn.b).data(), to[s]);
      blank = blank ||
              (!is_final && (tick <= 0 || rows_.scalar<bool>(rows_.first, row_of(tick), drawn.b)));
    }
  };
  fill(batch.observation[f].index, drawn.tick, drawn.tick - stack, nullptr);
  fill(batch.next_observation[f].index, next_tick, drawn.tick,
       drawn.step.last >= 0 ? finals_.frame(f, drawn.step.last) : nullptr);
}

}  // namespace shoal
