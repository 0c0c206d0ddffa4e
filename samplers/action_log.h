#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <vector>

#include "samplers/mailbox.h"
#include "samplers/shared_rollout.h"
#include "shoal/samplers/env_failure.h"
#include "shoal/samplers/sampler.h"

namespace shoal {

// Records the latest actions of environments that are stepped together, and their states at
// intervals. An EnvFailure is made from it and from the resets in SharedRollout. It lies in shared
// memory, and so survives the process that fills it.
//
// One process fills it: it calls begin() and end() for each rollout, and save_if_due() between two
// rollouts.
class ActionLog {
 public:
  // bytes: limit for the actions; one rollout always fits.
  ActionLog(Arena::Plan& plan, const EnvSpec& env, const SamplerOptions& options,
            std::size_t bytes);
  // tick: number of steps that the environments have taken before.
  void attach(const Arena& arena, std::int64_t tick);
  // Clears the log, when another process continues from `tick` with new environments.
  void start(std::int64_t tick);

  // saved: states of the environments before the next rollout, from Sampler::save(). Returns false
  // if there are none, or if they are too large.
  bool keep_states(const NamedTensors& saved);
  // save(states) gets the states of the environments, as Stepper::save() does. Saving takes at most
  // 1/200 of the time.
  void save_if_due(const std::function<void(NamedTensors&)>& save);

  void begin(std::size_t rows);  // a rollout; rows: its index in the `rollouts` of failure()
  void end(const SharedRollout& rollout);

  // The data that reproduce the failed step `tick` of environment b. home: the rows that hold its
  // resets; rollouts: the rows it is stepped in. The caller fills in `error` and the fields that
  // identify the environment.
  EnvFailure failure(std::int64_t b, std::int64_t tick, const SharedRollout& home,
                     const std::vector<const SharedRollout*>& rollouts) const;

 private:
  using Clock = std::chrono::steady_clock;
  struct State {
    std::int64_t begun = 0, next = 0;  // ticks: the first, and the one after the last rollout's
    std::int64_t rows = -1;            // index of the rollout under way; -1: none
    std::int64_t saves = 0;
    std::array<std::int64_t, 2> saved_at = {-1, -1};  // tick of the states in each slot
  };
  State& state() const { return *reinterpret_cast<State*>(arena_->data(state_)); }
  void copy(const Arena::Field& from, const Rows& rows, std::int64_t row,
            const Arena::Field& to) const;
  void find_beginning(std::int64_t b, const SharedRollout& home, EnvFailure& failure) const;
  std::vector<std::byte> saved_state(int slot, std::int64_t b, std::size_t infos) const;

  std::int64_t horizon_, envs_, first_env_, count_;  // count_: rows of the ring
  std::size_t most_state_bytes_;
  std::chrono::milliseconds period_;
  Named<Arena::Field> action_;  // [count, envs, ...], tick t in row t % count
  Arena::Field valid_, state_;
  const Arena* arena_ = nullptr;
  Mailbox states_{2};  // used alternately
  Clock::time_point saved_ = Clock::now();
  Clock::duration cost_{};  // of the last save
  bool offered_ = true;     // some environment supports save()
};

}  // namespace shoal
