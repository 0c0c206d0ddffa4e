#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "samplers/rollout_spec.h"
#include "shoal/agents/agent.h"
#include "shoal/core/arena.h"
#include "shoal/core/rows.h"
#include "shoal/ipc/worker_group.h"

namespace shoal {

// The result of an episode, written by the worker that steps the environment.
struct EpisodeEnd {
  // Length of an episode that continues in the next rollout, because this one was cut short.
  static constexpr std::int64_t kGoesOn = -1;
  std::int64_t length = 0, nonzero_rewards = 0;
  double reward = 0, discounted_reward = 0, score = 0;
  double discount = 1;  // of the next reward
};

enum class Command : std::int64_t {
  kStep,          // take one step
  kReset,         // reset the environments that wait for the end of the rollout
  kBegin,         // begin episodes in a row, where it is not valid
  kFill,          // act and step until the rollout is full (workers that act themselves)
  kSave,          // save the environments
  kSaveAndReset,  // save the environments, and reset those that do not support save()
  kSaveForLog,    // save the environments for the action log, without throwing
};
constexpr bool saves(Command command) { return command >= Command::kSave; }

// The shared memory of the agent process and its workers: the rows of one rollout, the ended
// episodes of each environment (of the current step, or of every step), and the agent's state.
//
// A rollout consists of `history` rows that precede it (for stacked frames and the previous
// action), then rows 0..T. The next rollout begins with a copy of the last rows of this one. If
// environments may wait, a spare row follows. It holds the first observations of the next rollout
// while this one is being filled or learned from.
struct SharedRollout {
  struct Sizes {
    std::int64_t horizon, envs;
    int collectors;
    int groups = 1;  // number of orders
    // Ended episodes are read when the rollout is full, not before the next step.
    bool ends_wait = false;
    // Environments may wait for the end of the rollout: their resets do, their worker died, or
    // their rollout was cut short.
    bool may_wait = false;
  };
  SharedRollout(Arena::Plan& plan, const EnvSpec& env, const AgentSpec& agent, const Sizes& sizes);
  void attach(const Arena& arena);

  std::int64_t horizon, history;
  bool ends_wait, may_wait;
  std::size_t statistics_bytes;  // of one environment
  std::vector<EpisodeInfo> infos;
  Rows rows;
  // [E] rows, E = T if ends wait, otherwise 1: the final observation and action mask of each
  // environment whose episode ended in that step.
  Rows last;
  Arena::Field episode_ends;                     // [E, B] EpisodeEnd
  Arena::Field reduced_infos;                    // [E, B, infos] float64, of the episode
  Arena::Field orders;                           // [groups], a cache line each
  Arena::Field taken;                            // [B] int64, see taken_by()
  Arena::Field statistics;                       // [B], each a counter and two alternating copies
  Arena::Field seeded_resets, reset_statistics;  // [B], see seeded_reset()
  Arena::Field phases;                           // [B] WorkerStatus::Phase
  // [collectors], a cache line each: number of its episodes that ended in this step.
  Arena::Field ended;
  // [B, ...], the agent's state before and after a step, alternating.
  std::array<Named<Arena::Field>, 2> state;
  // [T, B, ...], if ends wait: the agent's state after a step that ended an episode.
  Named<Arena::Field> final_state;
  const Arena* arena = nullptr;

  // The episode of environment b that ended in step t; length 0: none ended.
  EpisodeEnd& episode_end(std::int64_t t, std::int64_t b) const {
    return reinterpret_cast<EpisodeEnd*>(arena->data(episode_ends))[end_row(t) * rows.envs() + b];
  }
  std::span<double> reduced(std::int64_t t, std::int64_t b) const {
    const auto bytes = arena->element(reduced_infos, end_row(t) * rows.envs() + b);
    return {reinterpret_cast<double*>(bytes.data()), infos.size()};
  }
  // Number of steps that b has taken in this rollout before it was cut short; otherwise horizon, or
  // kBeginsAnew.
  std::int64_t& taken_by(std::int64_t b) const {
    return reinterpret_cast<std::int64_t*>(arena->data(taken))[b];
  }
  // The process of b died after the last step: its last row is valued as in any rollout, but the
  // next one begins with the spare row.
  static constexpr std::int64_t kBeginsAnew = std::numeric_limits<std::int64_t>::max();
  // Whether the next rollout of b does not begin with `row`, which was the last of this one.
  bool leaves_row(std::int64_t row, std::int64_t b) const {
    return taken_by(b) == kBeginsAnew || (waits(row, b) && !is_between(row, b));
  }
  // Ends the rollout of the environments [first, end) after t > 0 steps. Their current observations
  // get values like final observations, and begin their next rollout. Requires may_wait and
  // ends_wait.
  void cut_short(std::int64_t t, std::int64_t first, std::int64_t end) const;
  // Keeps the agent's states after step t for those environments of [first, end) whose episodes
  // ended in it. Requires ends_wait.
  void keep_final_states(std::int64_t t, std::int64_t first, std::int64_t end) const;
  // Keeps Env::statistics() of b after its last step, for the agent process and for a process that
  // takes over the environment. They are complete at any moment. One process at a time may write
  // those of b.
  void keep_statistics(std::int64_t b, std::span<const std::byte> from) const;
  // Leaves `to` unchanged if none were kept yet.
  void read_statistics(std::int64_t b, std::span<std::byte> to) const;
  // The newest reset of b with a seed. statistics_after_reset(): Env::statistics() after it. Both
  // are written by the process that steps b.
  struct SeededReset {
    std::uint64_t seed;
    std::int64_t tick;          // steps that b had taken before; -1: no such reset
    std::int64_t random_steps;  // Collector::Options::decorrelation if random steps followed, or 0
  };
  SeededReset& seeded_reset(std::int64_t b) const {
    return reinterpret_cast<SeededReset*>(arena->data(seeded_resets))[b];
  }
  std::span<std::byte> statistics_after_reset(std::int64_t b) const {
    return arena->element(reset_statistics, b);
  }
  // The kind of b's latest call. Written by the process that steps b.
  WorkerStatus::Phase& phase(std::int64_t b) const {
    return reinterpret_cast<WorkerStatus::Phase*>(arena->data(phases))[b];
  }
  // Holds the first observation of the next rollout of waiting environments.
  std::int64_t spare_row() const { return history + horizon + 1; }
  // Whether b waits in this row.
  bool waits(std::int64_t row, std::int64_t b) const {
    return may_wait && !rows.scalar<bool>(rows.valid, row, b);
  }
  // Whether b, of a batch, is between two episodes in this row (BatchOut::waits): only such a row
  // is the first of an episode, and not valid.
  bool is_between(std::int64_t row, std::int64_t b) const {
    return waits(row, b) && rows.scalar<bool>(rows.is_first, row, b);
  }
  // The next order of a group of environments, written by the process that acts.
  struct Order {
    Command command;
    std::int64_t step;     // of the rollout, for kStep
    std::int64_t rollout;  // index of the SharedRollout among those that the workers were made with
    std::int64_t tick;     // number of steps that the environments have taken before it
    bool due = false;      // until it is carried out; used with free-running workers only
  };
  Order& order(int group) const {
    return *reinterpret_cast<Order*>(arena->data(orders) + group * 64);
  }
  std::int64_t end_row(std::int64_t t) const { return t % last.count(); }
  std::int64_t& ended_in(int collector) const {
    return *reinterpret_cast<std::int64_t*>(arena->data(ended) + collector * 64);
  }

 private:
  struct KeptStatistics;
  KeptStatistics kept_statistics(std::int64_t b) const;
  void cut_short(std::int64_t t, std::int64_t b) const;
};

}  // namespace shoal
