#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "shoal/core/arena.h"
#include "shoal/core/rows.h"
#include "shoal/replays/replay.h"
#include "src/replays/final_frames.h"

namespace shoal {

// The steps behind a replay: a ring of time rows, and what follows each step within n steps of its
// episode. A tick is the number of a time row since the beginning; tick * B + b names a step for
// good.
class StepStore {
 public:
  StepStore(const EnvSpec& env, std::int64_t envs, const ReplayOptions& options);
  static std::size_t bytes(const EnvSpec& env, std::int64_t envs, const ReplayOptions& options);

  void append(const Samples& samples);

  std::int64_t envs() const { return rows_.envs(); }
  std::int64_t rows() const { return rows_.count(); }
  std::int64_t row_of(std::int64_t tick) const { return tick % rows_.count(); }
  // The steps of the ticks [oldest, end) are complete, and all that their observations need is
  // there.
  std::int64_t oldest() const { return oldest_after(0); }
  std::int64_t oldest_after(std::int64_t more) const;  // ticks have been appended
  std::int64_t end() const;
  // False for a step that its environment waited through.
  bool valid(std::int64_t tick, std::int64_t b) const { return step(tick, b).valid; }

  // Makes room for n steps in `batch`.
  void prepare(std::int64_t n, Transitions& batch) const;
  // Fills all but weight and index of `batch`, which has room for as many.
  void gather(std::span<const std::int64_t> steps, Transitions& batch) const;

 private:
  // What follows a step, known once the n-th reward is there or the episode has ended.
  struct Step {
    float reward = 0, discount = 0;
    std::int32_t last =
        -1;  // where the last observation of its truncated episode is; -1: elsewhere
    std::uint8_t steps = 0;  // to the observation that follows
    bool valid = false;
  };
  struct Drawn;  // one step of a batch

  Step& step(std::int64_t tick, std::int64_t b) const {
    return reinterpret_cast<Step*>(arena_.data(steps_))[row_of(tick) * envs() + b];
  }
  void check(const Samples& samples) const;
  void write_row(const Samples& samples, std::int64_t t);
  void follow(const Samples& samples, std::int64_t t, std::int64_t b);
  void forget(std::int64_t tick);
  void fetch(std::int64_t step) const;
  void gather_field(std::size_t field, const Drawn& drawn, Transitions& batch) const;
  void gather_stack(std::size_t field, const Drawn& drawn, Transitions& batch) const;

  int n_step_;
  std::int64_t history_;  // rows that an observation looks back at
  Arena::Plan plan_;
  Rows rows_;
  Arena::Field steps_;  // [rows, B] Step
  Arena arena_;
  FinalFrames finals_;
  std::vector<std::int32_t> window_finals_;  // [T, B]: places
  std::vector<int> open_;                    // [B]: steps whose n-th reward is still to come
  std::vector<float> powers_;                // of the discount, up to n
  std::int64_t ticks_ = 0;  // rows that are complete; of the next one there is the observation
};

}  // namespace shoal
