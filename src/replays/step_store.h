#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "shoal/core/arena.h"
#include "shoal/core/rows.h"
#include "shoal/replays/step_replay.h"
#include "src/replays/final_frames.h"
#include "src/replays/saved_replay.h"

namespace shoal {

// Zeros, [n, ...].
at::Tensor rows_like(const ArraySpec& spec, std::int64_t n);

// One rank's share of a store: the environments of rank r are the r-th part. A rank writes its own
// part and reads all; a barrier must separate writes from reads of other ranks. Null memory: the
// store is not shared.
struct StoreShare {
  int rank = 0, ranks = 1;
  const ReplayMemory* memory = nullptr;
};

// The storage of a replay: a ring of time rows, and the n-step outcome of each step.
//
// A tick is the number of a time row since the start. tick * B + b is the permanent name of a step;
// modulo the number of cells it is the step's cell.
class StepStore {
 public:
  // The outcome of a step, complete after n rewards or at the end of the episode.
  struct Follows {
    float reward = 0, discount = 0;
    std::int32_t last = -1;  // place of the final observation of its truncated episode; -1: none
    std::uint8_t steps = 0;  // to the next observation
    bool valid = false;
  };
  // One field of all cells.
  struct Column {
    std::byte* data;
    std::size_t bytes;  // of a cell
    const std::byte* at(std::int64_t cell) const {
      return data + static_cast<std::size_t>(cell) * bytes;
    }
  };

  // envs and options: of all ranks together. Construct it in rank 0 before the others.
  StepStore(const EnvSpec& env, std::int64_t envs, const StepReplayOptions& options,
            const StoreShare& share = {});
  static std::size_t bytes(const EnvSpec& env, std::int64_t envs, const StepReplayOptions& options);
  // Rows for `size` steps that can be drawn, and one more for the newest observation.
  static std::int64_t row_count(const EnvSpec& env, std::int64_t envs,
                                const StepReplayOptions& options);

  // Throws Error for a rollout of other environments than this rank's, of too many steps, or with a
  // gap before it in a continued episode.
  void check(const Samples& samples) const;
  // Requires check() of the same rollout.
  void append(const Samples& samples);

  std::int64_t envs() const { return envs_; }        // of all ranks
  std::int64_t first_env() const { return first_; }  // of this rank
  std::int64_t own_envs() const { return own_; }
  // This rank's first cell, after the ring, for final observations that a batch refers to.
  std::int64_t spare() const { return spare_; }
  std::int64_t cells() const { return cells_; }
  // The steps of ticks [oldest, end) are complete, as are the frame stacks of their observations.
  std::int64_t oldest() const { return oldest_after(0); }
  std::int64_t oldest_after(std::int64_t more) const;  // oldest() after `more` appended ticks
  std::int64_t end() const;
  // All tensors of this rank's environments, by name; views, valid until the next append().
  void save(NamedTensors& to);
  // Throws Error for what a replay of other settings has saved.
  void restore(const NamedTensors& from);

  // False for a step in which the environment waited.
  bool valid(std::int64_t cell) const { return follows_[cell].valid; }

  const FinalFrames& final_obs() const { return finals_; }
  // The final observation of the truncated episode of this cell; of a stack, the newest frame.
  const std::byte* final_frame(std::size_t field, std::int64_t cell) const {
    return finals_.frame(field, follows_[cell].last, cell % envs_ / own_);
  }
  // The action mask at that observation.
  const std::byte* final_mask(std::size_t field, std::int64_t cell) const {
    return finals_.mask(field, follows_[cell].last, cell % envs_ / own_);
  }

  // For replays with other batches than Transitions.
  std::int64_t cell_of(std::int64_t tick) const { return tick % ring_ * envs_; }
  std::int64_t ahead(std::int64_t cell, std::int64_t ticks) const {
    const auto at = cell + ticks * envs_;
    return at < 0 ? at + cells_ : at < cells_ ? at : at - cells_;
  }
  Column column(const Arena::Field& field) const {
    return {arena_.data(field), field.element_bytes};
  }
  const Follows& follows(std::int64_t cell) const { return follows_[cell]; }
  const Rows& rows() const { return rows_; }
  // Writes the indices of the `places` newest frames of the stack at a cell, oldest first; -1
  // before the first frame of the episode.
  void go_back(std::int64_t* to, std::int64_t places, std::int64_t cell) const;

  // Allocates the tensors of `batch` for n steps.
  void prepare(std::int64_t n, Transitions& batch) const;
  // Fills `batch`, allocated for as many cells, except weight and index.
  void gather(std::span<const std::int64_t> cells, Transitions& batch) const;

 private:
  struct Outcomes;

  NamedTensors rows_in_use() const;
  void cut_episodes(const Samples& samples);
  void cut(std::int64_t seen, std::int64_t cell, std::int64_t b);
  void write_row(const Samples& samples, std::int64_t t);
  void follow(const Outcomes& rollout, std::int64_t at, std::int64_t b);
  void forget(std::int64_t tick);
  void gather_plain(std::span<const std::int64_t> cells, Transitions& batch) const;
  void gather_next_masks(std::span<const std::int64_t> cells, Transitions& batch) const;
  void gather_stack(std::span<const std::int64_t> cells, std::size_t field,
                    Transitions& batch) const;

  ReplaySettings settings() const;

  int n_step_;
  double discount_;
  std::int64_t history_;  // earlier rows that a frame stack needs
  Arena::Plan plan_;
  std::int64_t ring_;  // rows of the ring
  Rows rows_;
  Arena::Field follows_field_;  // [rows, B] Follows
  Arena arena_;
  std::int64_t envs_, cells_;
  std::int64_t own_, first_;  // environments of this rank, and the first of them
  std::int64_t spare_;
  Follows* follows_;
  FinalFrames finals_;
  std::vector<std::int32_t> rollout_finals_;  // [T, own]: places
  std::vector<int> open_;                     // [own]: steps with fewer than n rewards so far
  std::vector<float> powers_;                 // of the discount, up to n
  std::optional<std::int64_t> next_tick_;     // expected Samples::first_tick; none initially
  std::int64_t ticks_ = 0;                    // complete rows; the next row has only an observation
};

}  // namespace shoal
