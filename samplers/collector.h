#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "samplers/rollout_checks.h"
#include "samplers/shared_rollout.h"
#include "shoal/envs/env.h"
#include "shoal/ipc/worker_group.h"
#include "src/envs/lanes.h"

namespace shoal {

// The environment that a process is calling (its index in the run), and the step; -1: none.
struct EnvPlace {
  std::int64_t env = -1, step = -1;
};

// Steps the environments [first, last) of a sampler in one process, one after the other or as a
// batch (make_batched()). It does not use torch, so it is safe in a forked child, and step() does
// not allocate.
//
// The constructor and step() throw DataError for an observation, a reward or an action that is NaN
// or infinite, and for an action mask without a legal action.
class Collector {
 public:
  struct Options {
    std::int64_t first = 0, last = 0;
    // Index in the run of the first environment of the rows; seeds and names depend on it.
    std::int64_t rows_begin = 0;
    int ends = 0;  // index of its counter of ended episodes (SharedRollout::ended_in())
    std::uint64_t seed = 1;
    Stream stream = Stream::kTrain;
    std::int64_t decorrelation = 0;
    double discount = 1;
    std::chrono::milliseconds construction_limit{300'000};  // of one environment, without a status
    std::int64_t tick = 0;     // steps taken before, by the run that is resumed
    bool resets_wait = false;  // for the end of the rollout
    // The previous process of these environments has died, within a step or between two. The first
    // call of step() marks this in the rows. The environments wait, and begin new episodes with the
    // next rollout.
    bool lost = false;
    // Saved states of every environment of the sampler, from save(); empty: a new run. Read by the
    // constructor only.
    std::span<const std::span<const std::byte>> saved = {};
    EnvPlace* place = nullptr;  // updated with the environment being called; must outlive this
  };

  // Constructs the environments, takes their random first steps, and writes the observations that
  // follow to the first row of the rollout. `status` may be null (serial).
  Collector(const SharedRollout& shared, const EnvFactory& make_env, const Options& options,
            WorkerStatus* status);

  // Writes to these rows from now on. They begin as the last ones ended.
  void go_to(const SharedRollout& shared) { shared_ = &shared; }

  // Sets the tick of the next step: ticks are skipped after a rollout was cut short or a process
  // died.
  void count_from(std::int64_t tick) { tick_ = tick; }

  // kStep: takes the actions of row t of the rollout, writes the results, and resets the
  // environments whose episodes are over, unless resets wait. kReset: resets the environments that
  // wait, after the last step of a rollout. kBegin: begins an episode in row t for every
  // environment whose row is not valid, with the seed of SharedRollout::seeded_reset() if its tick
  // is not negative; not for batches. Returns the number of episodes that ended in a step.
  std::int64_t carry_out(Command command, std::int64_t t);

  // The states of the environments and of their current episodes, for a resumed run: for each
  // environment the number of bytes (size_t), then the bytes. An environment that does not support
  // save() has 0 bytes. It is reset with a seed of this tick in the resumed run and, with
  // kSaveAndReset, in this one, where it writes to the first row of the rollout; this row must
  // already hold the last observations of the others. With kSaveForLog an exception of a save() is
  // printed, and from then on all environments have 0 bytes.
  std::vector<std::byte> save(Command how);

 private:
  struct Slot {
    std::unique_ptr<Env> env;
    EpisodeEnd so_far{};                     // of the current episode
    std::vector<double> infos;               // of the current episode, reduced
    bool waits = false;                      // for the end of the rollout
    bool over = false;                       // the episode is over: needs a reset
    bool between = false;                    // of a batch: its next episode has not begun yet
    std::optional<std::uint64_t> seed = {};  // for the first reset, if it is pending
  };

  const Slot& slot_of(std::int64_t b) const {
    return slots_[static_cast<std::size_t>(b - options_.first)];
  }
  Slot& slot_of(std::int64_t b) { return slots_[static_cast<std::size_t>(b - options_.first)]; }
  Slot make_slot(const EnvFactory& make_env, std::int64_t b);
  std::unique_ptr<Env> construct(const EnvFactory& make_env, std::int64_t b);
  void go_on(Slot& slot, std::int64_t b);
  void begin(Slot& slot, std::int64_t b, std::uint64_t seed) {
    begin(slot, b, seed, shared_->history);
  }
  void begin(Slot& slot, std::int64_t b, std::optional<std::uint64_t> seed, std::int64_t row);
  std::uint64_t first_seed(std::int64_t b) const {
    return env_seed(options_.seed, options_.stream, index(b));
  }
  std::uint64_t seed_of_now(std::int64_t b) const;
  std::uint64_t pending_seed(std::int64_t b) const { return slot_of(b).seed.value_or(0); }
  void take_random_steps(Slot& slot, std::uint64_t seed, std::int64_t b);
  void step(std::int64_t t);
  void reset_waiting();
  void begin_in(std::int64_t t);
  void step_one_by_one(std::int64_t t);
  void step(Slot& slot, std::int64_t t, std::int64_t b);
  // For batches, in collector_lanes.cc.
  void begin_lanes();
  void reset_lanes(std::uint64_t (Collector::*seed)(std::int64_t b) const);
  bool waits_between(std::int64_t b) const { return lanes_ && lanes_->waits(b - options_.first); }
  void step_lanes(std::int64_t t);
  void call_lanes(std::int64_t t);
  BatchOut lanes_out(std::int64_t t);
  void step_lane(Slot& slot, std::int64_t t, std::int64_t b);
  void finish_lane(Slot& slot, std::int64_t t, std::int64_t b);
  void pass(std::int64_t t, std::int64_t b) const;
  void stay_between(Slot& slot, std::int64_t row, std::int64_t b) const;
  void begin_again(Slot& slot, std::int64_t b);
  bool save_for_log(const Env& env, std::int64_t b, std::vector<std::byte>& state);
  StepOut out(std::int64_t observation_row, std::int64_t info_row, std::int64_t b);
  void begin_episode(Slot& slot) const;
  void count(Slot& slot, const StepResult& result, const ArraysOut& infos) const;
  void record_episode(Slot& slot, std::int64_t t, std::int64_t b);
  void reset(Slot& slot, std::optional<std::uint64_t> seed, std::int64_t row, std::int64_t b);
  void wait(Slot& slot, std::int64_t row, std::int64_t b);
  void write_nothing(std::int64_t t, std::int64_t b) const;
  void blank(std::int64_t row, std::int64_t b) const;
  Range envs() const { return {options_.first, options_.last}; }
  void refuse(const RolloutChecks::Found& found, WorkerStatus::Phase phase);
  void check_observations(std::int64_t row, const Range& of, WorkerStatus::Phase phase,
                          bool acted_on = true);
  std::int64_t index(std::int64_t b) const { return options_.rows_begin + b; }
  void enter(WorkerStatus::Phase phase, std::int64_t b) {
    if (auto& newest = home_->phase(b); newest != phase) newest = phase;
    if (options_.place) *options_.place = {index(b), tick_};
    if (status_) status_->enter(phase, index(b), tick_);
  }
  void leave() {
    if (options_.place) *options_.place = {};
    if (status_) status_->leave();
  }

  const SharedRollout* shared_;
  const SharedRollout* home_;  // the rows it was made with; they keep the statistics
  Options options_;
  WorkerStatus* status_;
  RolloutChecks checks_;
  std::vector<Slot> slots_;
  std::shared_ptr<Lanes> lanes_;  // null: the environments are stepped one by one
  bool in_place_ = false;         // the batch writes to the rows itself: no environment is wrapped
  std::int64_t tick_ = 0;
  bool saves_for_log_ = true;
  std::optional<std::size_t> score_;  // index of the info "score", the raw reward
  std::vector<std::byte*> observation_, info_, discarded_info_, final_observation_;
  std::vector<const std::byte*> action_;
  std::vector<std::byte> discarded_;  // infos of a reset, which belong to no step
};

}  // namespace shoal
