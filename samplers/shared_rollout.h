#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "samplers/rollout_spec.h"
#include "shoal/agents/agent.h"
#include "shoal/core/arena.h"
#include "shoal/core/rows.h"
#include "shoal/ipc/worker_group.h"

namespace shoal {

// How an episode ended; written by the worker that steps environment b.
struct EpisodeEnd {
  // The length of one that goes on in the next rollout: this one was cut short here.
  static constexpr std::int64_t kGoesOn = -1;
  std::int64_t length = 0, nonzero_rewards = 0;
  double reward = 0, discounted_reward = 0, score = 0;
  double discount = 1;  // of the next reward
};

enum class Command : std::int64_t {
  kStep,          // take one step
  kReset,         // reset the environments that wait for the end of the rollout
  kFill,          // act and step until the rollout is full (workers that act themselves)
  kSave,          // save the environments
  kSaveAndReset,  // likewise, and reset those that cannot be saved
  kSaveForLog,    // save the environments that can be saved, without throwing
};

// What the agent process and its workers share: the rows of one rollout, a place per environment
// for an episode that ended, in the present step or in each of them, and the agent's state.
//
// The rows of a rollout: `history` rows that precede it (the frames of stacked observations, the
// previous action), then rows 0..T. The next rollout begins with a copy of this one's last rows. If
// environments may wait, a spare row follows, where the observations that begin the next rollout
// are written while this one goes on or is learned from.
struct SharedRollout {
  struct Sizes {
    std::int64_t horizon, envs;
    int collectors;
    int groups = 1;  // that are given orders
    // Whether ends of episodes are read when the rollout is full, not before the next step.
    bool ends_wait = false;
    // Whether environments may wait for the end of the rollout: those whose resets do, whose worker
    // died, or that were too slow (cut_short()).
    bool may_wait = false;
  };
  SharedRollout(Arena::Plan& plan, const EnvSpec& env, const AgentSpec& agent, const Sizes& sizes);
  void attach(const Arena& arena);

  std::int64_t horizon, history;
  bool ends_wait, may_wait;
  std::size_t statistics_bytes;  // of one environment
  std::vector<EpisodeInfo> infos;
  Rows rows;
  // [E] rows, a single one unless ends wait: the final observation and action mask of each
  // environment whose episode ended in that step.
  Rows last;
  Arena::Field episode_ends;                     // [E, B] EpisodeEnd
  Arena::Field reduced_infos;                    // [E, B, infos] float64, of the episode
  Arena::Field orders;                           // [groups], a cache line each
  Arena::Field taken;                            // [B] int64, see taken_by()
  Arena::Field statistics;                       // [B], each a counter and two copies, by turns
  Arena::Field seeded_resets, reset_statistics;  // [B], see seeded_reset()
  Arena::Field phases;                           // [B] WorkerStatus::Phase
  Arena::Field ended;  // [collectors], a cache line each: episodes of its that ended in this step
  std::array<Named<Arena::Field>, 2>
      state;                        // [B, ...], the agent's before and after a step, by turns
  Named<Arena::Field> final_state;  // [T, B, ...], if ends wait: after a step that ended an episode
  const Arena* arena = nullptr;

  // Of environment b in step t; a length of 0 says that none ended.
  EpisodeEnd& episode_end(std::int64_t t, std::int64_t b) const {
    return reinterpret_cast<EpisodeEnd*>(arena->data(episode_ends))[end_row(t) * rows.envs() + b];
  }
  std::span<double> reduced(std::int64_t t, std::int64_t b) const {
    const auto bytes = arena->element(reduced_infos, end_row(t) * rows.envs() + b);
    return {reinterpret_cast<double*>(bytes.data()), infos.size()};
  }
  // Steps of the rollout that b has taken before it was cut short: horizon, unless it was.
  std::int64_t& taken_by(std::int64_t b) const {
    return reinterpret_cast<std::int64_t*>(arena->data(taken))[b];
  }
  // If environments may wait, and ends, too. Ends the rollout of those of [first, end) after t > 0
  // steps, having taken them: what they see now is valued like a final observation, and begins
  // their next rollout.
  void cut_short(std::int64_t t, std::int64_t first, std::int64_t end) const;
  // If ends wait: remembers the states after step t of those of the environments [first, end)
  // whose episodes ended in it.
  void keep_final_states(std::int64_t t, std::int64_t first, std::int64_t end) const;
  // Env::statistics() of b after its last step, where the process that takes over its environments,
  // and the agent process, find them, complete at any moment. One process at a time keeps those of
  // b.
  void keep_statistics(std::int64_t b, std::span<const std::byte> from) const;
  // Leaves `to` alone if none were kept yet.
  void read_statistics(std::int64_t b, std::span<std::byte> to) const;
  // The newest reset of b with a seed, and Env::statistics() after it. Written by the process that
  // steps b.
  struct SeededReset {
    std::uint64_t seed;
    std::int64_t tick;          // steps that b had taken before; -1: there was none
    std::int64_t random_steps;  // Collector::Options::decorrelation, if those steps followed; or 0
  };
  SeededReset& seeded_reset(std::int64_t b) const {
    return reinterpret_cast<SeededReset*>(arena->data(seeded_resets))[b];
  }
  std::span<std::byte> statistics_after_reset(std::int64_t b) const {
    return arena->element(reset_statistics, b);
  }
  // The newest call of b. Written by the process that steps b.
  WorkerStatus::Phase& phase(std::int64_t b) const {
    return reinterpret_cast<WorkerStatus::Phase*>(arena->data(phases))[b];
  }
  // With b's observation of row 0 of the next rollout, if it waits.
  std::int64_t spare_row() const { return history + horizon + 1; }
  // Whether b waits in this row.
  bool waits(std::int64_t row, std::int64_t b) const {
    return may_wait && !rows.scalar<bool>(rows.valid, row, b);
  }
  // The next order of a group of environments, written by the process that acts.
  struct Order {
    Command command;
    std::int64_t step;     // of the rollout, for kStep
    std::int64_t rollout;  // number of the SharedRollout among those that the workers know
    std::int64_t tick;     // steps that the environments have taken before it
    bool due = false;      // true until it is carried out; kept by free-running workers
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
