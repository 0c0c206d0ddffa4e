#include "samplers/rollout_slots.h"

#include <cstring>

namespace shoal {

namespace {

void copy_all(const Arena& arena, const Named<Arena::Field>& from, const Named<Arena::Field>& to) {
  for (std::size_t i = 0; i < from.size(); ++i)
    std::memcpy(arena.data(to[i]), arena.data(from[i]), from[i].bytes());
}

}  // namespace

RolloutSlots::RolloutSlots(Arena::Plan& plan, const EnvSpec& env, const AgentSpec& agent,
                           const Sizes& sizes) {
  for (int i = 0; i < sizes.slots; ++i) {
    slots.emplace_back(plan, env, agent, sizes.rollout);
    auto& state = initial_state.emplace_back();
    for (const auto& [name, array] : agent.state)
      state.add(name, plan.add({sizes.rollout.envs}, array));
  }
  ticks = plan.add_bytes(static_cast<std::size_t>(sizes.writers) * 64);
  auto no_steps = sizes.rollout;
  no_steps.horizon = 0;
  no_steps.ends_wait = false;
  for (int w = 0; w < sizes.writers; ++w) next.emplace_back(plan, env, agent, no_steps);
}

void RolloutSlots::attach(const Arena& arena) {
  for (auto& slot : slots) slot.attach(arena);
  for (auto& rows : next) rows.attach(arena);
}

std::int64_t& RolloutSlots::tick(int writer) const {
  const auto& arena = *next[0].arena;
  return *reinterpret_cast<std::int64_t*>(arena.data(ticks) + writer * 64);
}

void RolloutSlots::begin(int slot, int writer) const {
  const auto& rollout = slots[static_cast<std::size_t>(slot)];
  const auto& start = next[static_cast<std::size_t>(writer)];
  const auto& arena = *rollout.arena;
  rollout.rows.copy_of(start.rows, 0, 0, rollout.history + 1);
  copy_all(arena, start.state[0], rollout.state[0]);
  copy_all(arena, start.state[0], initial_state[static_cast<std::size_t>(slot)]);
  // The previous rollout of this slot may have been dropped unread.
  std::memset(arena.data(rollout.episode_ends), 0, rollout.episode_ends.bytes());
  for (std::int64_t b = 0; b < rollout.rows.envs(); ++b) rollout.taken_by(b) = rollout.horizon;
}

void RolloutSlots::end(int slot, int writer) const {
  const auto& rollout = slots[static_cast<std::size_t>(slot)];
  const auto& start = next[static_cast<std::size_t>(writer)];
  const auto H = rollout.history, T = rollout.horizon;
  start.rows.copy_of(rollout.rows, T, 0, H + 1);
  copy_all(*rollout.arena, rollout.state[T % 2], start.state[0]);
  if (!rollout.may_wait) return;
  for (std::int64_t b = 0; b < rollout.rows.envs(); ++b) {
    if (!rollout.leaves_row(H + T, b)) continue;
    if (const auto t = rollout.taken_by(b); t < T) {
      start.rows.copy_env_of(rollout.rows, t, 0, H + 1, b);
    } else {
      start.rows.copy_observation_of(rollout.rows, rollout.spare_row(), H, b);
      start.rows.scalar<bool>(start.rows.is_first, H, b) = true;
    }
    start.rows.scalar<bool>(start.rows.valid, H, b) = true;
  }
}

}  // namespace shoal
