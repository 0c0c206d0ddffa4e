#include "samplers/shared_rollout.h"

#include <algorithm>
#include <atomic>
#include <cstring>

namespace shoal {

namespace {

// Sizes of one environment's statistics: the counter and both copies are 8-byte aligned.
std::size_t copy_bytes(std::size_t statistics) { return (statistics + 7) / 8 * 8; }
std::size_t kept_bytes(std::size_t statistics) {
  return statistics == 0 ? 0 : sizeof(std::int64_t) + 2 * copy_bytes(statistics);
}

}  // namespace

SharedRollout::SharedRollout(Arena::Plan& plan, const EnvSpec& env, const AgentSpec& agent,
                             const Sizes& n)
    : horizon(n.horizon),
      history(std::max<std::int64_t>(1, rows_back(env))),  // 1: the previous action and reward
      ends_wait(n.ends_wait),
      may_wait(n.may_wait),
      statistics_bytes(env.statistics_bytes),
      infos(episode_infos(env)),
      rows(plan, rollout_spec(env, agent.info), history + horizon + 1 + (may_wait ? 1 : 0), n.envs),
      last(plan,
           RolloutSpec{.observation = env.observation, .action = {}, .mask = rows.spec().mask},
           n.ends_wait ? n.horizon : 1, n.envs),
      episode_ends(
          plan.add_bytes(static_cast<std::size_t>(last.count() * n.envs) * sizeof(EpisodeEnd))),
      reduced_infos(
          plan.add({last.count(), n.envs},
                   {.dtype = DType::kFloat64, .shape = {static_cast<std::int64_t>(infos.size())}})),
      orders(plan.add_bytes(static_cast<std::size_t>(n.groups) * 64)),
      taken(plan.add_bytes(static_cast<std::size_t>(n.envs) * sizeof(std::int64_t))),
      statistics(
          plan.add_bytes(static_cast<std::size_t>(n.envs) * kept_bytes(env.statistics_bytes))),
      seeded_resets(plan.add_bytes(static_cast<std::size_t>(n.envs) * sizeof(SeededReset))),
      reset_statistics(plan.add(
          {n.envs},
          {.dtype = DType::kUInt8, .shape = {static_cast<std::int64_t>(env.statistics_bytes)}})),
      phases(plan.add_bytes(static_cast<std::size_t>(n.envs) * sizeof(WorkerStatus::Phase))),
      ended(plan.add_bytes(static_cast<std::size_t>(n.collectors) * 64)) {
  for (const auto& [name, array] : agent.state) {
    for (auto& fields : state) fields.add(name, plan.add({n.envs}, array));
    if (n.ends_wait) final_state.add(name, plan.add({horizon, n.envs}, array));
  }
}

void SharedRollout::attach(const Arena& a) {
  arena = &a;
  rows.attach(a);
  last.attach(a);
  auto zero_all = [&](const Arena::Field& field) { std::memset(a.data(field), 0, field.bytes()); };
  zero_all(episode_ends);
  zero_all(orders);
  zero_all(statistics);
  zero_all(ended);
  zero_all(reset_statistics);
  for (std::int64_t b = 0; b < rows.envs(); ++b) {
    taken_by(b) = horizon;
    seeded_reset(b) = {.seed = 0, .tick = -1, .random_steps = 0};
    phase(b) = WorkerStatus::kWaiting;
  }
  for (const auto* fields : {&state[0], &state[1], &final_state})
    for (const auto& [name, field] : *fields) zero_all(field);
  // The rows before the first rollout, and the actions of its last row, are read before anything is
  // written to them.
  auto zero = [&](const Arena::Field& field, std::int64_t from, std::int64_t n) {
    if (n > 0 && rows.envs() > 0)
      std::memset(rows.element(field, from, 0).data(), 0,
                  field.element_bytes * static_cast<std::size_t>(n * rows.envs()));
  };
  const auto end = history + horizon;
  for (const auto& [name, field] : rows.observation) zero(field, 0, history);
  for (const auto& [name, field] : rows.mask) zero(field, 0, history);
  zero(rows.is_first, 0, history);
  zero(rows.valid, 0, history);
  for (const auto* fields : {&rows.action, &rows.agent_info, &rows.env_info}) {
    for (const auto& [name, field] : *fields) {
      zero(field, 0, history);
      zero(field, end, 1);
    }
  }
  for (const auto* field : {&rows.reward, &rows.terminated, &rows.truncated}) {
    zero(*field, 0, history);
    zero(*field, end, 1);
  }
}

// The writer fills the copy that readers do not use, then increments the counter. A reader that
// finds the counter unchanged has read its copy, number count % 2, completely.
struct SharedRollout::KeptStatistics {
  std::atomic_ref<std::int64_t> count;
  std::byte* copies;
};

SharedRollout::KeptStatistics SharedRollout::kept_statistics(std::int64_t b) const {
  auto* own = arena->data(statistics) + static_cast<std::size_t>(b) * kept_bytes(statistics_bytes);
  auto& count = *reinterpret_cast<std::int64_t*>(own);
  return {std::atomic_ref(count), own + sizeof count};
}

void SharedRollout::keep_statistics(std::int64_t b, std::span<const std::byte> from) const {
  if (from.empty()) return;
  const auto [count, copies] = kept_statistics(b);
  const auto next = count.load(std::memory_order_relaxed) + 1;
  std::ranges::copy(from, copies + (next % 2 == 0 ? 0 : copy_bytes(from.size())));
  count.store(next, std::memory_order_release);
}

void SharedRollout::read_statistics(std::int64_t b, std::span<std::byte> to) const {
  if (to.empty()) return;
  const auto [count, copies] = kept_statistics(b);
  for (;;) {
    const auto now = count.load(std::memory_order_acquire);
    if (now == 0) return;
    std::copy_n(copies + (now % 2 == 0 ? 0 : copy_bytes(to.size())), to.size(), to.begin());
    std::atomic_thread_fence(std::memory_order_acquire);
    if (count.load(std::memory_order_relaxed) == now) return;
  }
}

void SharedRollout::cut_short(std::int64_t t, std::int64_t first, std::int64_t end) const {
  for (auto b = first; b < end; ++b) cut_short(t, b);
  // The agent's state is expected where the last step of a rollout leaves it.
  if ((horizon - t) % 2 == 0) return;
  const auto &from = state[static_cast<std::size_t>(t % 2)],
             &to = state[static_cast<std::size_t>(horizon % 2)];
  for (std::size_t i = 0; i < from.size(); ++i)
    std::memcpy(arena->element(to[i], first).data(), arena->element(from[i], first).data(),
                static_cast<std::size_t>(end - first) * from[i].element_bytes);
}

void SharedRollout::cut_short(std::int64_t t, std::int64_t b) const {
  const auto fill = [&](const Arena::Field& field, std::int64_t row, int value) {
    const auto bytes = rows.element(field, row, b);
    std::memset(bytes.data(), value, bytes.size());
  };
  const auto now = history + t, before = now - 1, end = history + horizon;
  const bool waited = waits(now, b);
  const bool over =
      rows.scalar<bool>(rows.terminated, before, b) || rows.scalar<bool>(rows.truncated, before, b);
  if (!waited && !over) {
    rows.scalar<bool>(rows.truncated, before, b) = true;
    last.copy_observation_of(rows, now, end_row(t - 1), b);
    episode_end(t - 1, b) = {.length = EpisodeEnd::kGoesOn};
  }
  if (!waited) taken_by(b) = t;
  for (auto row = now; row < end; ++row) {
    for (const auto* fields : {&rows.action, &rows.agent_info, &rows.env_info})
      for (const auto& [name, field] : *fields) fill(field, row, 0);
    for (const auto* field : {&rows.reward, &rows.terminated, &rows.truncated, &rows.valid})
      fill(*field, row, 0);
    episode_end(row - history, b).length = 0;
  }
  for (auto row = now + 1; row <= end; ++row) {
    for (const auto& [name, field] : rows.observation) fill(field, row, 0);
    for (const auto& [name, field] : rows.mask) fill(field, row, 1);
    for (const auto* field : {&rows.is_first, &rows.valid}) fill(*field, row, 0);
  }
}

void SharedRollout::keep_final_states(std::int64_t t, std::int64_t first, std::int64_t end) const {
  const auto& after = state[static_cast<std::size_t>((t + 1) % 2)];
  for (std::size_t i = 0; i < after.size(); ++i) {
    for (auto b = first; b < end; ++b) {
      if (episode_end(t, b).length == 0) continue;
      const auto to = arena->element(final_state[i], t * rows.envs() + b);
      std::memcpy(to.data(), arena->element(after[i], b).data(), to.size());
    }
  }
}

}  // namespace shoal
