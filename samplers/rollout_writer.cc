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
  // Large parameters take some milliseconds to publish. Waiting for them is better than acting with
  // the old ones for a whole rollout.
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

SharedRollouts RolloutWriter::rollouts(const RolloutSlots& rows, int writer) {
  SharedRollouts all{&rows.next[static_cast<std::size_t>(writer)]};
  for (const auto& slot : rows.slots) all.push_back(&slot);
  return all;
}

RolloutWriter::Slot::Slot(const SharedRollout& shared, const RolloutWriter& writer)
    : tensors(shared, writer.parts_.agent.device()),
      actor(tensors, writer.parts_.agent, writer.options_, writer.parts_.filler.parts(),
            {.first_env = writer.parts_.writer * writer.options_.envs, .host_reads = true}) {}

RolloutWriter::RolloutWriter(const Parts& parts, const SamplerOptions& options,
                             std::int64_t first_tick)
    : parts_(parts), options_(options), parameters_(parts.agent), tick_(first_tick) {
  for (const auto& shared : parts.rows.slots)
    slots_.push_back(std::make_unique<Slot>(shared, *this));
}

void RolloutWriter::run() {
  const at::NoGradGuard no_grad;
  const c10::DeviceGuard device(parts_.agent.device());
  auto* const on = accelerator(parts_.agent.device());
  const auto stream = on == nullptr ? nullptr : on->own_stream();
  const auto patience = std::min(kPatience, options_.step_limit / 4);
  while (!parts_.ring.stopped()) {
    const auto slot = parts_.ring.acquire(parts_.writer, patience);
    if (parts_.status) parts_.status->leave();  // shows that it is alive while it waits for a slot
    if (!slot) continue;
    const auto version = parameters_.follow(parts_.board);
    if (!fill(*slot)) return;
    parts_.ring.publish(*slot, {.first_tick = tick_, .policy_version = version});
    tick_ += options_.horizon;
  }
}

bool RolloutWriter::fill(int slot) {
  const auto& shared = parts_.rows.slots[static_cast<std::size_t>(slot)];
  auto& [x, actor] = *slots_[static_cast<std::size_t>(slot)];
  const auto rollout = static_cast<std::size_t>(slot) + 1;  // as in rollouts()
  auto& filler = parts_.filler;
  parts_.log.save_if_due([&](NamedTensors& states) { filler.save(Command::kSaveForLog, states); });
  parts_.rows.begin(slot, parts_.writer);
  parts_.log.begin(rollout);
  parts_.rows.tick(parts_.writer) = tick_;
  actor.begin(tick_, /*device_has_first_row=*/true);
  if (x.mirrored) {
    parts_.agent.before_rollout(actor.greedy());
    x.enter(/*carried=*/false);
    for (const auto& [name, m] : x.state[0]) x.upload(m, 0, m.host.size(0));
  }
  const auto keep_states = [&](std::int64_t t, const Range& envs) {
    shared.keep_final_states(t, envs.first, envs.last);
  };
  if (!filler.fill({.rollout = rollout, .actor = &actor, .ended = keep_states, .stopped = [this] {
                      return parts_.ring.stopped();
                    }}))
    return false;
  parts_.log.end(shared);
  if (shared.may_wait) filler.start_resets(rollout);
  filler.finish_resets();
  parts_.rows.end(slot, parts_.writer);
  return !parts_.ring.stopped();
}

}  // namespace shoal
