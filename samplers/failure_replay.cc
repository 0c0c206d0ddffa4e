#include <ATen/core/Tensor.h>

#include <algorithm>
#include <cstring>

#include "samplers/random_start.h"
#include "samplers/rollout_checks.h"
#include "samplers/rollout_spec.h"
#include "shoal/core/error.h"
#include "shoal/core/finite.h"
#include "shoal/samplers/env_failure.h"

namespace shoal {

// Memory for one row of one environment.
struct FailureReplay::Place {
  Arena::Plan plan;
  Rows rows;
  Arena arena;
  std::vector<std::byte*> observation, info;
  std::vector<const std::byte*> action;

  explicit Place(const EnvSpec& spec) : rows(plan, rollout_spec(spec, {}), 1, 1), arena(plan) {
    rows.attach(arena);
    for (const auto& [name, field] : rows.observation) observation.push_back(arena.data(field));
    for (const auto& [name, field] : rows.env_info) info.push_back(arena.data(field));
    for (const auto& [name, field] : rows.action) action.push_back(arena.data(field));
  }
  bool* mask() const {
    return rows.mask.empty() ? nullptr : reinterpret_cast<bool*>(arena.data(rows.mask[0]));
  }
};

FailureReplay::FailureReplay(const EnvFactory& make_env, const EnvFailure& failure)
    : failure_(failure) {
  require(
      failure.repeatable(),
      "environment {} failed at step {}, which cannot be reproduced: it cannot save its state, and "
      "its last reset with a seed is older than the kept actions",
      failure.env, failure.step);
  env_ = make_env({.seed = failure.env_seed, .index = failure.env, .stream = failure.stream});
  const auto& spec = env_->spec();
  place_ = std::make_unique<Place>(spec);
  for (const auto& [name, field] : place_->rows.action)
    require(failure.actions.contains(name) &&
                failure.actions.at(name).nbytes() ==
                    static_cast<std::size_t>(failure.steps()) * field.element_bytes,
            "the actions of {} differ from those of the environment that failed", spec.id);
  require(failure.statistics.size() == env_->statistics().size(),
          "{} has {} bytes of statistics, expected {} as in the environment that failed", spec.id,
          env_->statistics().size(), failure.statistics.size());
}

FailureReplay::~FailureReplay() = default;

Env& FailureReplay::env() { return *env_; }

StepOut FailureReplay::out() {
  has_observation_ = true;
  return {ArraysOut(place_->observation), ArraysOut(place_->info), place_->mask()};
}

void FailureReplay::reset(std::optional<std::uint64_t> seed) {
  over_ = false;
  env_->reset(seed, out());
}

void FailureReplay::begin() {
  if (!failure_.seed) {
    require(env_->load(failure_.state), "{} has a saved state but does not support load()",
            env_->spec().id);
    return;
  }
  reset(failure_.seed);
  check_observations(/*acted_on=*/true);
  std::ranges::copy(failure_.statistics, env_->statistics().begin());
  if (failure_.random_steps == 0) return;
  take_random_steps(env_->spec(), *failure_.seed, failure_.random_steps, place_->mask(),
                    [&](ArraysIn action) {
                      take(action);
                      check_rewards();
                      check_observations(!over_);
                      if (over_) reset_and_check();
                    });
}

std::int64_t FailureReplay::steps_before() const {
  return failure_.steps() - (failure_.in_step ? 1 : 0);
}

void FailureReplay::take(ArraysIn action) {
  const auto result = env_->step(action, out());
  over_ = result.episode_over();
  place_->rows.scalar<float>(place_->rows.reward, 0, 0) = result.reward;
}

void FailureReplay::take_next() {
  const auto& rows = place_->rows;
  for (std::size_t i = 0; i < rows.action.size(); ++i) {
    const auto to = rows.element(rows.action[i], 0, 0);
    const auto* from =
        static_cast<const std::byte*>(failure_.actions.at(rows.action.name(i)).const_data_ptr());
    std::memcpy(to.data(), from + static_cast<std::size_t>(taken_) * to.size(), to.size());
  }
  ++taken_;
  take(ArraysIn(place_->action));
}

// A reset after the last step is left to fail(), unless a later step failed.
void FailureReplay::step() {
  require(taken_ < steps_before(), "all {} steps before the failure have been taken",
          steps_before());
  take_next();
  if (over_ && (failure_.in_step || taken_ < steps_before())) reset(std::nullopt);
}

std::optional<bool> FailureReplay::same_observation() const {
  if (failure_.observation.empty() || !has_observation_) return {};
  const auto own = observation();
  for (const auto& [name, there] : failure_.observation) {
    if (!own.contains(name)) return false;
    const auto& here = own.at(name);
    if (here.nbytes() != there.nbytes() ||
        std::memcmp(here.const_data_ptr(), there.const_data_ptr(), here.nbytes()) != 0)
      return false;
  }
  return true;
}

// As in Collector.
void FailureReplay::check_observations(bool acted_on) const {
  const auto& rows = place_->rows;
  auto found = RolloutChecks(rows.spec()).observations(rows, 0, {0, 1});
  if (!found && acted_on) found = RolloutChecks::masks(rows, 0, {0, 1});
  if (found) throw DataError(found->text);
}

void FailureReplay::check_rewards() const {
  const auto found = RolloutChecks(place_->rows.spec()).rewards(place_->rows, 0, {0, 1});
  if (found) throw DataError(found->text);
}

void FailureReplay::reset_and_check() {
  reset(std::nullopt);
  check_observations(/*acted_on=*/true);
}

void FailureReplay::fail(const std::function<void()>& about_to_fail) {
  if (failure_.at_beginning()) return;
  const bool in_reset = failure_.phase == WorkerStatus::kResetting;
  if (failure_.in_step) {
    if (!in_reset) about_to_fail();
    take_next();
    check_rewards();
    check_observations(!over_);
    if (in_reset) about_to_fail();
    if (over_) reset_and_check();
  } else if (in_reset) {
    about_to_fail();
    if (over_) reset_and_check();
  } else {
    if (over_) reset_and_check();
    about_to_fail();
    std::vector<std::byte> state;
    env_->save(state);
  }
}

NamedTensors FailureReplay::observation() const {
  NamedTensors all;
  for (const auto& [name, field] : place_->rows.observation)
    all.add(name, view(place_->arena, field)[0][0].clone());
  return all;
}

}  // namespace shoal
