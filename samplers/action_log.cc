#include "samplers/action_log.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <cstring>
#include <string>

#include "shoal/data/saved.h"

namespace shoal {

namespace {

constexpr std::int64_t kMostSteps = 100'000;  // of one environment

std::size_t row_bytes(const RolloutSpec& spec, std::int64_t envs) {
  std::size_t bytes = 1;
  for (const auto& [name, array] : spec.action) bytes += array.bytes();
  return bytes * static_cast<std::size_t>(envs);
}

}  // namespace

ActionLog::ActionLog(Arena::Plan& plan, const EnvSpec& env, const SamplerOptions& o,
                     std::size_t bytes)
    : horizon_(o.horizon),
      envs_(o.envs),
      first_env_(o.first_env),
      most_state_bytes_(o.state_log_bytes),
      period_(o.save_period),
      state_(plan.add_bytes(sizeof(State))) {
  const auto spec = rollout_spec(env);
  if (!o.on_failure) bytes = 0;  // nobody reads the log
  offered_ = bytes > 0;
  count_ = std::clamp(static_cast<std::int64_t>(bytes / row_bytes(spec, envs_)), horizon_,
                      std::max(horizon_, kMostSteps));
  for (const auto& [name, array] : spec.action) action_.add(name, plan.add({count_, envs_}, array));
  valid_ = plan.add({count_, envs_}, {.dtype = DType::kBool});
}

void ActionLog::attach(const Arena& arena, std::int64_t tick) {
  arena_ = &arena;
  start(tick);
}

void ActionLog::start(std::int64_t tick) { state() = {.begun = tick, .next = tick}; }

// saved_at is -1 while a slot is being replaced, in case the process is killed meanwhile.
bool ActionLog::keep_states(const NamedTensors& saved) {
  if (!offered_) return false;
  NamedTensors states;
  std::size_t bytes = 0;
  for (std::int64_t b = 0; b < envs_; ++b) {
    const auto name = "env/" + std::to_string(first_env_ + b);
    states.add(name, shoal::saved(saved, name));
    bytes += states.at(name).nbytes();
  }
  if (bytes == 0 || bytes > most_state_bytes_) return false;
  auto& s = state();
  const auto slot = static_cast<int>(s.saves++ % 2);
  auto& at = s.saved_at[static_cast<std::size_t>(slot)];
  at = -1;
  states_.put(slot, to_bytes(states));
  at = s.next;
  return true;
}

void ActionLog::save_if_due(const std::function<void(NamedTensors&)>& save) {
  if (!offered_) return;
  const auto begin = Clock::now();
  const bool always = period_.count() == 0;
  if (!always && begin - saved_ < std::max<Clock::duration>(period_, 200 * cost_)) return;
  NamedTensors states;
  save(states);
  offered_ = keep_states(states);
  saved_ = Clock::now();
  cost_ = saved_ - begin;
}

void ActionLog::begin(std::size_t rows) { state().rows = static_cast<std::int64_t>(rows); }

// Copies the rows of a rollout from `row` on; the ring may wrap within them.
void ActionLog::copy(const Arena::Field& from, const Rows& rows, std::int64_t row,
                     const Arena::Field& to) const {
  const auto bytes = static_cast<std::size_t>(envs_) * to.element_bytes;
  const auto begin = state().next % count_;
  const auto first = std::min(horizon_, count_ - begin);
  const auto put = [&](std::int64_t place, std::int64_t at, std::int64_t n) {
    if (n > 0)
      std::memcpy(arena_->element(to, place * envs_).data(), rows.element(from, at, 0).data(),
                  static_cast<std::size_t>(n) * bytes);
  };
  put(begin, row, first);
  put(0, row + first, horizon_ - first);
}

void ActionLog::end(const SharedRollout& rollout) {
  const auto& rows = rollout.rows;
  for (std::size_t i = 0; i < action_.size(); ++i)
    copy(rows.action[i], rows, rollout.history, action_[i]);
  copy(rows.valid, rows, rollout.history, valid_);
  auto& s = state();
  s.next += horizon_;
  s.rows = -1;
}

// In the format of Collector::save(), the current episode precedes the state.
std::vector<std::byte> ActionLog::saved_state(int slot, std::int64_t b, std::size_t infos) const {
  const auto states = from_bytes(states_.read(slot));
  const auto& tensor = states.at("env/" + std::to_string(first_env_ + b));
  const auto head = sizeof(EpisodeEnd) + infos * sizeof(double);
  if (tensor.nbytes() <= head) return {};
  const auto* bytes = static_cast<const std::byte*>(tensor.const_data_ptr());
  return {bytes + head, bytes + tensor.nbytes()};
}

// The older states give the longer replay. Everything before a reset with a seed is irrelevant.
void ActionLog::find_beginning(std::int64_t b, const SharedRollout& home,
                               EnvFailure& failure) const {
  const auto& s = state();
  const auto oldest = std::max(s.begun, s.next - count_);
  const auto& reset = home.seeded_reset(b);
  for (const auto i : {s.saves % 2, (s.saves + 1) % 2}) {
    const auto at = s.saved_at[static_cast<std::size_t>(i)];
    if (at < oldest || at <= reset.tick) continue;
    failure.state = saved_state(static_cast<int>(i), b, home.infos.size());
    failure.begin = at;
    if (!failure.state.empty()) return;
  }
  if (reset.tick < oldest) return;
  failure.begin = reset.tick;
  failure.seed = reset.seed;
  failure.random_steps = reset.random_steps;
  const auto statistics = home.statistics_after_reset(b);
  failure.statistics.assign(statistics.begin(), statistics.end());
}

EnvFailure ActionLog::failure(std::int64_t b, std::int64_t tick, const SharedRollout& home,
                              const std::vector<const SharedRollout*>& rollouts) const {
  const auto& s = state();
  EnvFailure failure{.step = tick, .phase = home.phase(b), .begin = tick};
  failure.statistics.resize(home.statistics_bytes);
  find_beginning(b, home, failure);
  const auto* rollout = s.rows < 0 ? nullptr : rollouts[static_cast<std::size_t>(s.rows)];
  const auto row = [&](std::int64_t t) { return rollout->history + t - s.next; };
  const auto end = rollout == nullptr ? s.next : std::min(tick + 1, s.next + horizon_);
  std::vector<std::int64_t> taken;
  const bool made = failure.phase != WorkerStatus::kConstructing;
  for (auto t = failure.begin; made && t < end; ++t)
    if (t < s.next ? *arena_->element(valid_, t % count_ * envs_ + b).data() != std::byte{0}
                   : rollout->rows.scalar<bool>(rollout->rows.valid, row(t), b))
      taken.push_back(t);
  failure.in_step = !taken.empty() && taken.back() == tick && tick >= s.next;
  for (std::size_t i = 0; i < action_.size(); ++i) {
    const auto& spec = action_[i].spec;
    std::vector<std::int64_t> shape{std::ssize(taken)};
    shape.insert(shape.end(), spec.shape.begin(), spec.shape.end());
    const auto all = at::empty(shape, torch_dtype(spec.dtype));
    auto* to = static_cast<std::byte*>(all.data_ptr());
    for (const auto t : taken) {
      const auto from = t < s.next ? arena_->element(action_[i], t % count_ * envs_ + b)
                                   : rollout->rows.element(rollout->rows.action[i], row(t), b);
      to = std::ranges::copy(from, to).out;
    }
    failure.actions.add(action_.name(i), all);
  }
  if (!failure.in_step) return failure;
  for (const auto& [name, field] : rollout->rows.observation)
    failure.observation.add(name, view(*rollout->arena, field)[row(tick)][b].clone());
  return failure;
}

}  // namespace shoal
