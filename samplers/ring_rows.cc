#include "samplers/ring_rows.h"

#include <cstring>

namespace shoal {

namespace {

void copy_all(const Arena& arena, const Named<Arena::Field>& from, const Named<Arena::Field>& to) {
  for (std::size_t i = 0; i < from.size(); ++i)
    std::memcpy(arena.data(to[i]), arena.data(from[i]), from[i].bytes());
}

}  // namespace

RingRows::RingRows(Arena::Plan& plan, const EnvSpec& env, const AgentSpec& agent,
                   const Sizes& sizes) {
  for (int i = 0; i < sizes.slots; ++i) {
    slots.emplace_back(plan, env, agent, sizes.window);
    auto& state = initial_state.emplace_back();
    for (const auto& [name, array] : agent.state)
      state.add(name, plan.add({sizes.window.envs}, array));
  }
  ticks = plan.add_bytes(static_cast<std::size_t>(sizes.writers) * 64);
  auto no_steps = sizes.window;
  no_steps.horizon = 0;
  no_steps.ends_wait = false;
  for (int w = 0; w < sizes.writers; ++w) next.emplace_back(plan, env, agent, no_steps);
}

void RingRows::attach(const Arena& arena) {
  for (auto& slot : slots) slot.attach(arena);
  for (auto& rows : next) rows.attach(arena);
}

std::int64_t& RingRows::tick(int writer) const {
  const auto& arena = *next[0].arena;
  return *reinterpret_cast<std::int64_t*>(arena.data(ticks) + writer * 64);
}

void RingRows::begin(int slot, int writer) const {
  const auto& window = slots[static_cast<std::size_t>(slot)];
  const auto& start = next[static_cast<std::size_t>(writer)];
  const auto& arena = *window.arena;
  window.rows.copy_of(start.rows, 0, 0, window.history + 1);
  copy_all(arena, start.state[0], window.state[0]);
  copy_all(arena, start.state[0], initial_state[static_cast<std::size_t>(slot)]);
  // Nobody may have read the window that was here before.
  std::memset(arena.data(window.episode_ends), 0, window.episode_ends.bytes());
  for (std::int64_t b = 0; b < window.rows.envs(); ++b) window.taken_by(b) = window.horizon;
}

void RingRows::end(int slot, int writer) const {
  const auto& window = slots[static_cast<std::size_t>(slot)];
  const auto& start = next[static_cast<std::size_t>(writer)];
  const auto H = window.history, T = window.horizon;
  start.rows.copy_of(window.rows, T, 0, H + 1);
  copy_all(*window.arena, window.state[T % 2], start.state[0]);
  if (!window.may_wait) return;
  for (std::int64_t b = 0; b < window.rows.envs(); ++b) {
    if (!window.waits(H + T, b)) continue;
    if (const auto t = window.taken_by(b); t < T) {
      start.rows.copy_env_of(window.rows, t, 0, H + 1, b);
    } else {
      start.rows.copy_observation_of(window.rows, window.spare_row(), H, b);
      start.rows.scalar<bool>(start.rows.first, H, b) = true;
    }
    start.rows.scalar<bool>(start.rows.valid, H, b) = true;
  }
}

}  // namespace shoal
