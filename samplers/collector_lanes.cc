#include <algorithm>

#include "samplers/collector.h"
#include "shoal/core/error.h"
#include "src/ipc/child_process.h"

// The part of Collector for environments that are stepped as a batch. Only resets of the whole
// batch, and wrapped environments, go through each environment's Env.
namespace shoal {

// Called once the first environment is constructed, and with it the batch, if there is one.
void Collector::begin_lanes() {
  if (!lanes_->opened()) {
    lanes_.reset();
    return;
  }
  in_place_ = true;
  final_observation_.resize(shared_->last.observation.size());
  if (options_.lost) return;  // they begin with the next rollout
  if (options_.saved.empty()) {
    reset_lanes(&Collector::first_seed);
  } else if (options_.saved[static_cast<std::size_t>(index(options_.first))].empty()) {
    reset_lanes(&Collector::seed_of_now);
  }
}

// Resets the whole batch; the reset of each environment then reads its part.
void Collector::reset_lanes(std::uint64_t (Collector::*seed)(std::int64_t b) const) {
  if (!lanes_) return;
  std::vector<std::uint64_t> seeds;
  for (auto b = options_.first; b < options_.last; ++b) seeds.push_back((this->*seed)(b));
  enter(WorkerStatus::kResetting, options_.first);
  lanes_->reset(seeds);
  end_if_forked_by_worker();
}

void Collector::step_lanes(std::int64_t t) {
  call_lanes(t);
  for (auto b = options_.first; b < options_.last; ++b) {
    if (in_place_)
      finish_lane(slot_of(b), t, b);
    else
      step_lane(slot_of(b), t, b);
  }
}

void Collector::call_lanes(std::int64_t t) {
  const auto& rows = shared_->rows;
  const auto first = options_.first;
  for (std::size_t i = 0; i < action_.size(); ++i)
    action_[i] = rows.element(rows.action[i], shared_->history + t, first).data();
  enter(WorkerStatus::kStepping, first);
  try {
    if (in_place_)
      lanes_->step_into(ArraysIn(action_), lanes_out(t));
    else
      lanes_->step(ArraysIn(action_));
  } catch (const BatchEnvError& e) {
    enter(WorkerStatus::kStepping, first + e.env);
    throw;
  } catch (const std::exception& e) {
    if (envs().size() == 1) throw;
    throw Error("{} (one of the environments {} to {}, which are stepped together)", e.what(),
                index(first), index(options_.last - 1));
  }
  end_if_forked_by_worker();
}

BatchOut Collector::lanes_out(std::int64_t t) {
  const auto &rows = shared_->rows, &last = shared_->last;
  const auto row = shared_->history + t, end = shared_->end_row(t), first = options_.first;
  const auto to = out(row + 1, row, first);
  for (std::size_t i = 0; i < final_observation_.size(); ++i)
    final_observation_[i] = last.element(last.observation[i], end, first).data();
  return {.observation = to.observation,
          .info = to.info,
          .mask = to.mask,
          .reward = &rows.scalar<float>(rows.reward, row, first),
          .terminated = &rows.scalar<bool>(rows.terminated, row, first),
          .truncated = &rows.scalar<bool>(rows.truncated, row, first),
          .final_observation = ArraysOut(final_observation_),
          .final_mask = last.mask.empty() ? nullptr
                                          : reinterpret_cast<bool*>(
                                                last.element(last.mask[0], end, first).data())};
}

// The batch has written the step of this environment, and the first observation of its next episode
// if it is over.
void Collector::finish_lane(Slot& slot, std::int64_t t, std::int64_t b) {
  const auto& rows = shared_->rows;
  const auto row = shared_->history + t;
  bool begins = slot.between;
  if (slot.between) {
    pass(t, b);
  } else {
    const StepResult result{.reward = rows.scalar<float>(rows.reward, row, b),
                            .terminated = rows.scalar<bool>(rows.terminated, row, b),
                            .truncated = rows.scalar<bool>(rows.truncated, row, b)};
    for (std::size_t i = 0; i < info_.size(); ++i)
      info_[i] = rows.element(rows.env_info[i], row, b).data();
    count(slot, result, ArraysOut(info_));
    begins = slot.over = result.episode_over();
    if (begins) record_episode(slot, t, b);
  }
  if (waits_between(b)) return stay_between(slot, row + 1, b);
  if (begins) begin_episode(slot);
  slot.between = false;
  rows.scalar<bool>(rows.is_first, row + 1, b) = begins;
  rows.scalar<bool>(rows.valid, row + 1, b) = true;
}

// The environment may be wrapped.
void Collector::step_lane(Slot& slot, std::int64_t t, std::int64_t b) {
  if (!slot.between) return step(slot, t, b);
  const auto& rows = shared_->rows;
  const auto next = shared_->history + t + 1;
  pass(t, b);
  if (waits_between(b)) return stay_between(slot, next, b);
  reset(slot, std::nullopt, next, b);
  rows.scalar<bool>(rows.is_first, next, b) = rows.scalar<bool>(rows.valid, next, b) = true;
}

// The results of a step that an environment has spent between two episodes.
void Collector::pass(std::int64_t t, std::int64_t b) const {
  const auto& rows = shared_->rows;
  const auto row = shared_->history + t;
  rows.scalar<float>(rows.reward, row, b) = 0;
  rows.scalar<bool>(rows.terminated, row, b) = false;
  rows.scalar<bool>(rows.truncated, row, b) = false;
  for (const auto& [name, field] : rows.env_info)
    std::ranges::fill(rows.element(field, row, b), std::byte{0});
}

// The row is not valid. That it is the first of an episode distinguishes it from those of
// environments that wait for the end of the rollout.
void Collector::stay_between(Slot& slot, std::int64_t row, std::int64_t b) const {
  slot.between = true;
  blank(row, b);
  shared_->rows.scalar<bool>(shared_->rows.is_first, row, b) = true;
}

}  // namespace shoal
