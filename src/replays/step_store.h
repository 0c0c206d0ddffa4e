#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "shoal/core/arena.h"
#include "shoal/core/rows.h"
#include "shoal/replays/step_replay.h"
#include "src/replays/final_frames.h"

namespace shoal {

// Zeros, [n, ...].
at::Tensor rows_like(const ArraySpec& spec, std::int64_t n);

// What one of several ranks has of a store: the environments of rank r are the r-th part. It writes
// theirs and reads all; who reads what others write waits for them first. Null memory: the rank is
// alone.
struct StoreShare {
  int rank = 0, ranks = 1;
  const ReplayMemory* memory = nullptr;
};

// The steps behind a replay: a ring of time rows, and what follows each step within n steps of its
// episode.
//
// A tick is the number of a time row since the beginning. tick * B + b names a step for good; that,
// modulo the number of cells, is the cell where it lies.
class StepStore {
 public:
  // What follows a step, known once the n-th reward is there or the episode has ended.
  struct Follows {
    float reward = 0, discount = 0;
    std::int32_t last =
        -1;  // where the last observation of its truncated episode is; -1: elsewhere
    std::uint8_t steps = 0;  // to the observation that follows
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

  // envs and options: of all ranks together. In rank 0 first, and then in the others.
  StepStore(const EnvSpec& env, std::int64_t envs, const StepReplayOptions& options,
            const StoreShare& share = {});
  static std::size_t bytes(const EnvSpec& env, std::int64_t envs, const StepReplayOptions& options);

  // Throws Error for a rollout of other environments than this rank's, of too many steps, or with a
  // gap before it in an episode that goes on.
  void check(const Samples& samples) const;
  // Of a rollout that check() lets pass.
  void append(const Samples& samples);

  std::int64_t envs() const { return envs_; }        // of all ranks
  std::int64_t first_env() const { return first_; }  // of this one
  std::int64_t own_envs() const { return own_; }
  // Behind the ring, this rank's room for the last observations that a batch refers to.
  std::int64_t spare() const { return spare_; }
  std::int64_t cells() const { return cells_; }
  // The steps of the ticks [oldest, end) are complete, and all that their observations need is
  // there.
  std::int64_t oldest() const { return oldest_after(0); }
  std::int64_t oldest_after(std::int64_t more) const;  // ticks have been appended
  std::int64_t end() const;
  // Everything of this rank's environments, by name; views that end with the next append().
  void save(NamedTensors& to);
  void restore(const NamedTensors& from);

  // False for a step that its environment waited through.
  bool valid(std::int64_t cell) const { return follows_[cell].valid; }

  const FinalFrames& final_obs() const { return finals_; }
  // The last observation of the episode that was truncated at this cell; the newest frame of a
  // stack.
  const std::byte* final_frame(std::size_t field, std::int64_t cell) const {
    return finals_.frame(field, follows_[cell].last, cell % envs_ / own_);
  }
  // The action mask at that observation.
  const std::byte* final_mask(std::size_t field, std::int64_t cell) const {
    return finals_.mask(field, follows_[cell].last, cell % envs_ / own_);
  }

  // For replays that lay out batches of another kind.
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
  // Which stored frames make the `places` newest of the stack that is seen at a cell, oldest first,
  // -1 before the first one of the episode.
  void go_back(std::int64_t* to, std::int64_t places, std::int64_t cell) const;

  // Makes room for n steps in `batch`.
  void prepare(std::int64_t n, Transitions& batch) const;
  // Fills all but weight and index of `batch`, which has room for as many.
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

  int n_step_;
  std::int64_t history_;  // rows that an observation looks back at
  Arena::Plan plan_;
  std::int64_t ring_;  // rows of it
  Rows rows_;
  Arena::Field follows_field_;  // [rows, B] Follows
  Arena arena_;
  std::int64_t envs_, cells_;
  std::int64_t own_, first_;  // of this rank: envs, and the first of them
  std::int64_t spare_;
  Follows* follows_;
  FinalFrames finals_;
  std::vector<std::int32_t> rollout_finals_;  // [T, own]: places
  std::vector<int> open_;                     // [own]: steps whose n-th reward is still to come
  std::vector<float> powers_;                 // of the discount, up to n
  std::optional<std::int64_t> next_tick_;     // Samples::first_tick expected next; none at first
  std::int64_t ticks_ = 0;  // rows that are complete; of the next one there is the observation
};

}  // namespace shoal
