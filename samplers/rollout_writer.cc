#include "samplers/rollout_writer.h"

#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/DeviceGuard.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <span>
#include <thread>

#include "samplers/partition.h"
#include "shoal/data/flat.h"
#include "src/compute/accelerator.h"

namespace shoal {

Parameters::Parameters(Agent& agent)
    : agent_(agent), flat_(sizeof(version_) + bytes_of(agent.acting_parameters())) {}

void Parameters::publish(ParameterBoard& board, std::int64_t version) {
  std::memcpy(flat_.data(), &version, sizeof version);
  flatten(agent_.acting_parameters(), std::span(flat_).subspan(sizeof version));
  board.publish(flat_);
}

std::int64_t Parameters::follow(const ParameterBoard& board) {
  // Large parameters take some milliseconds to publish: better to wait for those than to act for a
  // whole rollout with the ones before.
  constexpr int kPatient = 50;
  constexpr std::chrono::microseconds kPause{200};
  bool read = board.read(flat_, sequence_);
  for (int i = 0; !read && i < kPatient && board.is_newer_than(sequence_); ++i) {
    std::this_thread::sleep_for(kPause);
    read = board.read(flat_, sequence_);
  }
  if (!read) return version_;
  std::memcpy(&version_, flat_.data(), sizeof version_);
  unflatten(std::span(flat_).subspan(sizeof version_), agent_.acting_parameters());
  agent_.parameters_changed();
  return version_;
}

Rollouts RolloutWriter::rollouts(const RolloutSlots& rows, int writer) {
  Rollouts all{&rows.next[static_cast<std::size_t>(writer)]};
  for (const auto& slot : rows.slots) all.push_back(&slot);
  return all;
}

RolloutWriter::RolloutWriter(const Parts& parts, const SamplerOptions& options,
                             std::int64_t first_tick)
    : parts_(parts), options_(options), parameters_(parts.agent), tick_(first_tick) {
  if (parts.workers) {
    dynamic_.emplace(*parts.workers, options);
    groups_ = parts.workers->envs();
  }
  for (int g = 0; g < options.groups && !dynamic_; ++g)
    groups_.push_back(group_range(options.envs, options.groups, g));
  for (const auto& slot : parts.rows.slots)
    actors_.push_back(std::make_unique<BatchedInference>(slot, parts.agent, options, groups_,
                                                         parts.writer * options.envs,
                                                         /*host_reads=*/true));
}

void RolloutWriter::run() {
  const at::NoGradGuard no_grad;
  const c10::DeviceGuard device(parts_.agent.device());
  auto* const on = accelerator(parts_.agent.device());
  const auto stream = on == nullptr ? nullptr : on->own_stream();
  const auto patience = std::min(kPatience, options_.step_limit / 4);
  while (!parts_.ring.stopped()) {
    const auto slot = parts_.ring.acquire(parts_.writer, patience);
    if (parts_.status) parts_.status->leave();  // alive, even if it waits for a slot for long
    if (!slot) continue;
    const auto version = parameters_.follow(parts_.board);
    fill(*slot);
    if (parts_.ring.stopped()) return;  // it may have stopped in the middle
    parts_.ring.publish(*slot, {.first_tick = tick_, .policy_version = version});
    tick_ += options_.horizon;
  }
}

void RolloutWriter::fill(int slot) {
  const auto& rollout = parts_.rows.slots[static_cast<std::size_t>(slot)];
  auto& actor = *actors_[static_cast<std::size_t>(slot)];
  const auto rows = static_cast<std::size_t>(slot) + 1;  // as in rollouts()
  parts_.log.save_if_due([this](NamedTensors& states) {
    if (parts_.stepper != nullptr)
      parts_.stepper->save(SharedRollout::kSaveForLog, states);
    else
      parts_.workers->save(SharedRollout::kSaveForLog, states);
  });
  parts_.rows.begin(slot, parts_.writer);
  parts_.log.begin(rows);
  parts_.rows.tick(parts_.writer) = tick_;
  actor.begin(tick_, /*device_has_first_row=*/true);
  if (auto& x = actor.tensors(); x.mirrored) {
    parts_.agent.before_rollout(actor.greedy());
    x.enter(/*carried=*/false);
    for (const auto& [name, m] : x.state[0]) x.upload(m, 0, m.host.size(0));
  }
  if (dynamic_) {
    if (!dynamic_->fill(rollout, rows, actor, [this] { return parts_.ring.stopped(); })) return;
    parts_.log.end(rollout);
    if (rollout.may_wait) dynamic_->start_resets(rows);
    dynamic_->finish();
  } else {
    fill_by_turns(rollout, rows, actor);
  }
  parts_.rows.end(slot, parts_.writer);
}

// While one group is stepped, actions are chosen for the other.
void RolloutWriter::fill_by_turns(const SharedRollout& rollout, std::size_t rows,
                                  BatchedInference& actor) {
  auto& stepper = *parts_.stepper;
  const auto finish = [&](std::int64_t t, int group) {
    stepper.finish(group);
    const auto& envs = groups_[static_cast<std::size_t>(group)];
    rollout.keep_final_states(t, envs.first, envs.last);
  };
  for (std::int64_t t = 0; t < options_.horizon; ++t) {
    if (parts_.ring.stopped()) return;
    for (int g = 0; g < options_.groups; ++g) {
      if (t > 0) finish(t - 1, g);
      actor.act(t, static_cast<std::size_t>(g));
      stepper.start(t, g, rows);
    }
  }
  for (int g = 0; g < options_.groups; ++g) finish(options_.horizon - 1, g);
  parts_.log.end(rollout);
  if (!rollout.may_wait) return;
  for (int g = 0; g < options_.groups; ++g) stepper.start(options_.horizon, g, rows);
  for (int g = 0; g < options_.groups; ++g) stepper.finish(g);
}

}  // namespace shoal
