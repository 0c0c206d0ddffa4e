#include "samplers/collector.h"

#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

#include "samplers/random_start.h"
#include "shoal/core/error.h"
#include "shoal/core/finite.h"
#include "src/core/print.h"
#include "src/envs/construction.h"
#include "src/ipc/child_process.h"

namespace shoal {

namespace {

void fill_bytes(std::span<std::byte> to, int value) { std::memset(to.data(), value, to.size()); }

}  // namespace

Collector::Collector(const SharedRollout& shared, const EnvFactory& make_env,
                     const Options& options, WorkerStatus* status)
    : shared_(&shared),
      home_(&shared),
      options_(options),
      status_(status),
      checks_(shared.rows.spec()),
      tick_(options.tick) {
  const at::AutoGradMode gradients(true);  // an environment may learn, too
  const auto& rows = shared.rows;
  observation_.resize(rows.observation.size());
  info_.resize(rows.env_info.size());
  action_.resize(rows.action.size());
  std::size_t info_bytes = 0;
  for (const auto& [name, field] : rows.env_info) info_bytes += field.spec.bytes() + 63;
  discarded_.resize(info_bytes);
  for (std::size_t offset = 0; const auto& [name, field] : rows.env_info) {
    discarded_info_.push_back(discarded_.data() + offset);
    offset += (field.spec.bytes() + 63) / 64 * 64;
  }
  for (std::size_t i = 0; i < rows.env_info.size(); ++i)
    if (rows.env_info.name(i) == "score") score_ = i;
  std::vector<std::uint64_t> seeds;
  for (auto b = options.first; b < options.last; ++b) seeds.push_back(first_seed(b));
  lanes_ = std::make_shared<Lanes>(index(options.first), std::move(seeds), options.stream);
  for (auto b = options.first; b < options.last; ++b) slots_.push_back(make_slot(make_env, b));
  leave();
}

std::unique_ptr<Env> Collector::construct(const EnvFactory& make_env, std::int64_t b) {
  const EnvContext context{
      .seed = first_seed(b), .index = index(b), .stream = options_.stream, .lanes = lanes_};
  enter(WorkerStatus::kConstructing, b);
  if (!status_) return construct_here(make_env, context, options_.construction_limit);
  auto env = make_env(context);
  end_if_forked_by_worker();
  return env;
}

Collector::Slot Collector::make_slot(const EnvFactory& make_env, std::int64_t b) {
  const auto& rows = shared_->rows;
  const auto seed = first_seed(b);
  Slot slot;
  // Set before the construction, in case it fails.
  home_->seeded_reset(b) = {.seed = seed, .tick = tick_, .random_steps = 0};
  slot.env = construct(make_env, b);
  if (b == options_.first) begin_lanes();
  in_place_ = in_place_ && dynamic_cast<Lane*>(slot.env.get()) != nullptr;
  require_same(rows.spec(), slot.env->spec(), index(b));
  require(slot.env->statistics().size() == shared_->statistics_bytes,
          "environment {} ({}) has {} bytes of statistics, expected {}, "
          "EnvSpec::statistics_bytes of environment 0",
          index(b), slot.env->spec().id, slot.env->statistics().size(), shared_->statistics_bytes);
  slot.infos.resize(shared_->infos.size());
  if (options_.lost) {
    slot.waits = slot.over = true;
    // Not the seed of the previous life: its reset may have ended that.
    slot.seed = Rng(seed_of_now(b), static_cast<std::uint64_t>(status_->past_lives()))();
  } else if (!options_.saved.empty()) {
    go_on(slot, b);
  } else {
    begin(slot, b, seed);
    if (options_.decorrelation > 0) take_random_steps(slot, seed, b);
  }
  if (!options_.lost) home_->keep_statistics(b, slot.env->statistics());
  return slot;
}

void Collector::begin(Slot& slot, std::int64_t b, std::optional<std::uint64_t> seed,
                      std::int64_t row) {
  const auto& rows = shared_->rows;
  reset(slot, seed, row, b);
  check_observations(row, {b, b + 1}, WorkerStatus::kResetting);
  rows.scalar<bool>(rows.is_first, row, b) = true;
  rows.scalar<bool>(rows.valid, row, b) = true;
}

void Collector::begin_in(std::int64_t t) {
  const auto& rows = shared_->rows;
  const auto row = shared_->history + t;
  for (auto b = options_.first; b < options_.last; ++b) {
    if (rows.scalar<bool>(rows.valid, row, b)) continue;
    auto& slot = slot_of(b);
    const auto& seeded = home_->seeded_reset(b);
    begin(slot, b, seeded.tick < 0 ? std::nullopt : std::optional(seeded.seed), row);
    slot.waits = slot.over = false;
  }
  leave();
}

// Depends on the tick: with the environment's own seed, the same episode would begin after every
// save().
std::uint64_t Collector::seed_of_now(std::int64_t b) const {
  return Rng(first_seed(b), static_cast<std::uint64_t>(tick_))();
}

std::vector<std::byte> Collector::save(Command how) {
  const at::AutoGradMode gradients(true);
  std::vector<std::byte> all, state;
  auto append = [&all](const void* from, std::size_t bytes) {
    const auto* begin = static_cast<const std::byte*>(from);
    all.insert(all.end(), begin, begin + bytes);
  };
  for (auto b = options_.first; b < options_.last; ++b) {
    auto& slot = slot_of(b);
    state.clear();
    if (slot.seed && b == options_.first) reset_lanes(&Collector::pending_seed);
    if (slot.seed) begin_again(slot, b);
    enter(WorkerStatus::kSaving, b);
    const bool offered =
        how == Command::kSaveForLog ? save_for_log(*slot.env, b, state) : slot.env->save(state);
    const auto infos = slot.infos.size() * sizeof(double);
    const std::size_t bytes = offered ? sizeof slot.so_far + infos + state.size() : 0;
    append(&bytes, sizeof bytes);
    if (offered) {
      append(&slot.so_far, sizeof slot.so_far);
      append(slot.infos.data(), infos);
      append(state.data(), state.size());
    } else if (how == Command::kSaveAndReset) {
      if (b == options_.first) reset_lanes(&Collector::seed_of_now);
      begin(slot, b, seed_of_now(b));
    }
  }
  leave();
  return all;
}

// The log is optional, so an exception does not end the run here. In a checkpoint it does.
bool Collector::save_for_log(const Env& env, std::int64_t b, std::vector<std::byte>& state) {
  if (!saves_for_log_) return false;
  try {
    return env.save(state);
  } catch (const std::exception& e) {
    saves_for_log_ = false;
    print_error(
        "the save() of environment {} threw: {}; no more states are kept for reproducing "
        "failures\n",
        index(b), e.what());
    return false;
  }
}

// Needed if a worker died between two rollouts.
void Collector::begin_again(Slot& slot, std::int64_t b) {
  begin(slot, b, *slot.seed);
  slot.seed.reset();
  slot.waits = slot.over = false;
}

// Resumes from a result of save().
void Collector::go_on(Slot& slot, std::int64_t b) {
  const auto bytes = options_.saved[static_cast<std::size_t>(index(b))];
  if (bytes.empty()) return begin(slot, b, seed_of_now(b));
  const auto infos = slot.infos.size() * sizeof(double), head = sizeof slot.so_far + infos;
  require(bytes.size() >= head, "the saved environment {} has {} bytes, expected at least {}",
          index(b), bytes.size(), head);
  std::memcpy(&slot.so_far, bytes.data(), sizeof slot.so_far);
  std::ranges::copy(bytes.subspan(sizeof slot.so_far, infos),
                    std::as_writable_bytes(std::span(slot.infos)).begin());
  require(slot.env->load(bytes.subspan(head)),
          "environment {} ({}) has a saved state but does not support load()", index(b),
          slot.env->spec().id);
  home_->seeded_reset(b).tick = -1;
}

// All of these steps write to row 0, so the older frames of a stack stay blank.
void Collector::take_random_steps(Slot& slot, std::uint64_t seed, std::int64_t b) {
  home_->seeded_reset(b).random_steps = options_.decorrelation;
  const auto to = out(shared_->history, -1, b);
  const auto step = [&](ArraysIn action) {
    enter(WorkerStatus::kStepping, b);
    const auto result = slot.env->step(action, out(shared_->history, -1, b));
    count(slot, result, to.info);
    refuse(RolloutChecks::rewards(result.reward, score_ ? *to.info.as<float>(*score_) : 0, b),
           WorkerStatus::kStepping);
    check_observations(shared_->history, {b, b + 1}, WorkerStatus::kStepping,
                       !result.episode_over());
    if (!result.episode_over()) return;
    reset(slot, slot.seed, shared_->history, b);
    check_observations(shared_->history, {b, b + 1}, WorkerStatus::kResetting);
  };
  shoal::take_random_steps(slot.env->spec(), seed, options_.decorrelation, to.mask, step);
}

std::int64_t Collector::carry_out(Command command, std::int64_t t) {
  const at::AutoGradMode gradients(true);
  if (command == Command::kStep) {
    step(t);
    return shared_->ended_in(options_.ends);
  }
  if (command == Command::kReset)
    reset_waiting();
  else
    begin_in(t);
  return 0;
}

void Collector::step(std::int64_t t) {
  const auto& rows = shared_->rows;
  const auto row = shared_->history + t;
  refuse(checks_.actions(rows, row, envs()), WorkerStatus::kStepping);
  shared_->ended_in(options_.ends) = 0;
  if (lanes_ && !slots_[0].waits)
    step_lanes(t);
  else
    step_one_by_one(t);
  refuse(checks_.step(rows, row, envs()), WorkerStatus::kStepping);
  ++tick_;
  leave();
}

void Collector::step_one_by_one(std::int64_t t) {
  for (auto b = options_.first; b < options_.last; ++b) {
    auto& slot = slot_of(b);
    if (slot.waits)
      write_nothing(t, b);
    else
      step(slot, t, b);
  }
}

void Collector::step(Slot& slot, std::int64_t t, std::int64_t b) {
  const auto& rows = shared_->rows;
  const auto row = shared_->history + t;
  for (std::size_t i = 0; i < action_.size(); ++i)
    action_[i] = rows.element(rows.action[i], row, b).data();
  enter(WorkerStatus::kStepping, b);
  const auto to = out(row + 1, row, b);
  const auto result = slot.env->step(ArraysIn(action_), to);
  end_if_forked_by_worker();
  const bool ended = result.terminated || result.truncated;
  rows.scalar<float>(rows.reward, row, b) = result.reward;
  rows.scalar<bool>(rows.terminated, row, b) = result.terminated;
  rows.scalar<bool>(rows.truncated, row, b) = result.truncated;
  rows.scalar<bool>(rows.is_first, row + 1, b) = ended;
  rows.scalar<bool>(rows.valid, row + 1, b) = true;
  if (home_->statistics_bytes > 0) home_->keep_statistics(b, slot.env->statistics());
  count(slot, result, to.info);
  slot.over = result.episode_over();
  if (slot.over) record_episode(slot, t, b);
  if (ended && options_.resets_wait)
    wait(slot, row + 1, b);
  else if (slot.over && waits_between(b))
    stay_between(slot, row + 1, b);
  else if (slot.over)
    reset(slot, slot.seed, row + 1, b);
}

void Collector::reset_waiting() {
  if (slots_[0].waits) reset_lanes(&Collector::pending_seed);
  for (auto b = options_.first; b < options_.last; ++b) {
    auto& slot = slot_of(b);
    const auto& rows = shared_->rows;
    if (slot.waits) {
      // Not is_between(): the next rollout begins with the spare row, even if the process that died
      // left the first row of an episode here.
      const auto last = shared_->history + shared_->horizon;
      auto &valid = rows.scalar<bool>(rows.valid, last, b),
           &is_first = rows.scalar<bool>(rows.is_first, last, b);
      const bool died_after_last_step = valid && !is_first;
      // No episode continues, even after a restart.
      shared_->taken_by(b) = died_after_last_step ? SharedRollout::kBeginsAnew : shared_->horizon;
      if (!died_after_last_step) valid = is_first = false;
    }
    if (slot.waits && slot.over) {
      reset(slot, slot.seed, shared_->spare_row(), b);
      check_observations(shared_->spare_row(), {b, b + 1}, WorkerStatus::kResetting);
    }
    slot.waits = false;
    slot.seed.reset();
  }
  leave();
}

StepOut Collector::out(std::int64_t observation_row, std::int64_t info_row, std::int64_t b) {
  const auto& rows = shared_->rows;
  for (std::size_t i = 0; i < observation_.size(); ++i)
    observation_[i] = rows.element(rows.observation[i], observation_row, b).data();
  for (std::size_t i = 0; i < info_.size() && info_row >= 0; ++i)
    info_[i] = rows.element(rows.env_info[i], info_row, b).data();
  bool* mask = rows.mask.empty()
                   ? nullptr
                   : reinterpret_cast<bool*>(rows.element(rows.mask[0], observation_row, b).data());
  return {ArraysOut(observation_), ArraysOut(info_row >= 0 ? info_ : discarded_info_), mask};
}

void Collector::begin_episode(Slot& slot) const {
  slot.so_far = {};
  for (std::size_t i = 0; i < slot.infos.size(); ++i)
    slot.infos[i] =
        shared_->infos[i].reduce == PerEpisode::kMax ? -std::numeric_limits<double>::infinity() : 0;
}

void Collector::count(Slot& slot, const StepResult& result, const ArraysOut& infos) const {
  auto& e = slot.so_far;
  ++e.length;
  e.nonzero_rewards += result.reward != 0;
  e.reward += result.reward;
  e.discounted_reward += e.discount * result.reward;
  e.discount *= options_.discount;
  e.score += score_ ? *infos.as<float>(*score_) : result.reward;
  for (std::size_t i = 0; i < slot.infos.size(); ++i) {
    const auto& info = shared_->infos[i];
    const auto x = number_at(infos.as<std::byte>(info.place), info.dtype);
    auto& y = slot.infos[i];
    y = info.reduce == PerEpisode::kSum   ? y + x
        : info.reduce == PerEpisode::kMax ? std::max(y, x)
                                          : x;
  }
}

// Row t + 1 holds the final observation, unless a batch has written it to its place.
void Collector::record_episode(Slot& slot, std::int64_t t, std::int64_t b) {
  const auto& rows = shared_->rows;
  const auto row = shared_->history + t + 1, end = shared_->end_row(t);
  if (!in_place_) shared_->last.copy_observation_of(rows, row, end, b);
  refuse(checks_.observations(shared_->last, end, {b, b + 1}), WorkerStatus::kStepping);
  shared_->episode_end(t, b) = slot.so_far;
  std::ranges::copy(slot.infos, shared_->reduced(t, b).begin());
  ++shared_->ended_in(options_.ends);
}

void Collector::reset(Slot& slot, std::optional<std::uint64_t> seed, std::int64_t row,
                      std::int64_t b) {
  begin_episode(slot);
  slot.between = false;
  enter(WorkerStatus::kResetting, b);
  if (seed) home_->seeded_reset(b) = {.seed = *seed, .tick = tick_, .random_steps = 0};
  slot.env->reset(seed, out(row, -1, b));
  end_if_forked_by_worker();
  if (!seed) return;
  const auto statistics = slot.env->statistics();
  home_->read_statistics(b, statistics);  // the reset has cleared them
  std::ranges::copy(statistics, home_->statistics_after_reset(b).begin());
}

// `row` holds either the first observation after a lost life, or a final one, which has been
// recorded.
void Collector::wait(Slot& slot, std::int64_t row, std::int64_t b) {
  slot.waits = true;
  if (!slot.over) {
    check_observations(row, {b, b + 1}, WorkerStatus::kStepping);
    shared_->rows.copy_observation(row, shared_->spare_row(), b);
  }
  blank(row, b);
}

// acted_on: the agent acts on these observations, so at least one action must be legal.
void Collector::check_observations(std::int64_t row, const Range& of, WorkerStatus::Phase phase,
                                   bool acted_on) {
  refuse(checks_.observations(shared_->rows, row, of), phase);
  if (acted_on) refuse(RolloutChecks::masks(shared_->rows, row, of), phase);
}

// Without a status (serial), the message itself names the environment and step.
void Collector::refuse(const RolloutChecks::Found& found, WorkerStatus::Phase phase) {
  if (!found) return;
  enter(phase, found->b);
  throw DataError(
      status_ ? found->text
              : fmt::format("environment {} at step {}: {}", index(found->b), tick_, found->text));
}

// If the row is still valid, the previous process died in this step. The result of the step is
// unknown, so the episode is truncated with its observation.
void Collector::write_nothing(std::int64_t t, std::int64_t b) const {
  const auto& rows = shared_->rows;
  const auto row = shared_->history + t;
  for (const auto& [name, field] : rows.env_info) fill_bytes(rows.element(field, row, b), 0);
  auto& valid = rows.scalar<bool>(rows.valid, row, b);
  rows.scalar<float>(rows.reward, row, b) = 0;
  rows.scalar<bool>(rows.terminated, row, b) = false;
  rows.scalar<bool>(rows.truncated, row, b) = std::exchange(valid, false);
  shared_->episode_end(t, b).length = 0;
  blank(row + 1, b);
}

// All actions are legal in a blank row, so that an agent that reads the row finds one.
void Collector::blank(std::int64_t row, std::int64_t b) const {
  const auto& rows = shared_->rows;
  for (const auto& [name, field] : rows.observation) fill_bytes(rows.element(field, row, b), 0);
  for (const auto& [name, field] : rows.mask) fill_bytes(rows.element(field, row, b), 1);
  rows.scalar<bool>(rows.is_first, row, b) = false;
  rows.scalar<bool>(rows.valid, row, b) = false;
}

}  // namespace shoal
