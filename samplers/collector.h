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

namespace shoal {

// The environment that a process is in, among all of the run, and its step; -1: in none.
struct EnvPlace {
  std::int64_t env = -1, step = -1;
};

// The environments [first, last) of a sampler, stepped one after the other by one process. Uses no
// torch, so it is safe in a forked child, and allocates nothing in step().
//
// Its constructor and step() throw DataError for an observation, a reward or an action that is NaN
// or infinite, and for an action mask without a legal action.
class Collector {
 public:
  struct Options {
    std::int64_t first = 0, last = 0;
    // What the first of the rows' environments is among all: seeds and names go by that.
    std::int64_t rows_begin = 0;
    int ends = 0;  // which of SharedRollout' counts of ended episodes is its own
    std::uint64_t seed = 1;
    Stream stream = Stream::kTrain;
    std::int64_t decorrelation = 0;
    double discount = 1;
    std::chrono::milliseconds construction_limit{300'000};  // of one environment, without a status
    std::int64_t tick = 0;     // steps taken before, by the run this one goes on from
    bool resets_wait = false;  // for the end of the rollout
    // Another process has had these environments, and has died with them in the middle of a step,
    // or between two: the first call of step() says so in the rows. They wait, and begin new
    // episodes with the next rollout.
    bool lost = false;
    // What save() gave there, of every environment of the sampler; empty: a new run. Read by the
    // constructor only.
    std::span<const std::span<const std::byte>> saved = {};
    EnvPlace* place = nullptr;  // where it says where it is; must outlive it
  };

  // Makes the environments, takes their first, random steps, and writes the observations that
  // follow to the first row of the rollout. `status` may be null (serial).
  Collector(const SharedRollout& shared, const EnvFactory& make_env, const Options& options,
            WorkerStatus* status);

  // From now on in these rows, which begin as the last ones ended.
  void go_to(const SharedRollout& shared) { shared_ = &shared; }

  // The number of the next step: those who are cut short, or whose process died, skip some.
  void count_from(std::int64_t tick) { tick_ = tick; }

  // Takes the actions of row t of the rollout, writes the results, and resets the environments
  // whose episodes are over, unless resets wait.
  void step(std::int64_t t);
  // Resets the environments that wait, after the last step of a rollout.
  void reset_waiting();
  std::int64_t ended() const { return shared_->ended_in(options_.ends); }  // in the last step

  // Everything its environments need to go on elsewhere, and the episodes under way: for each of
  // them the number of bytes (size_t), then these. An environment that offers no save() has 0
  // bytes: it is reset with a seed of this tick, there and, with kSaveAndReset, here, and writes to
  // the first row of the rollout, where the last observations of the others must be already. With
  // kSaveForLog an exception of a save() is printed, and all have 0 bytes from then on.
  std::vector<std::byte> save(Command how);

 private:
  struct Slot {
    std::unique_ptr<Env> env;
    EpisodeEnd so_far{};                     // of the episode under way
    std::vector<double> infos;               // likewise, reduced
    bool waits = false;                      // for the end of the rollout
    bool over = false;                       // and needs a reset then
    std::optional<std::uint64_t> seed = {};  // of that reset: it has had none yet
  };

  Slot make_slot(const EnvFactory& make_env, std::int64_t b);
  std::unique_ptr<Env> construct(const EnvFactory& make_env, std::int64_t b);
  void go_on(Slot& slot, std::int64_t b);
  void begin(Slot& slot, std::int64_t b, std::uint64_t seed);
  std::uint64_t seed_of_now(std::int64_t b) const;
  void take_random_steps(Slot& slot, std::uint64_t seed, std::int64_t b);
  void step(Slot& slot, std::int64_t t, std::int64_t b);
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
  const SharedRollout* home_;  // where statistics are kept: those it was made with
  Options options_;
  WorkerStatus* status_;
  RolloutChecks checks_;
  std::vector<Slot> slots_;
  std::int64_t tick_ = 0;
  bool saves_for_log_ = true;
  std::optional<std::size_t> score_;  // which info is the raw reward
  std::vector<std::byte*> observation_, info_, discarded_info_;
  std::vector<const std::byte*> action_;
  std::vector<std::byte> discarded_;  // where a reset writes its infos, which belong to no step
};

}  // namespace shoal
