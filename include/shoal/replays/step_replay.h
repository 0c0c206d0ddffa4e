#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "shoal/core/rng.h"
#include "shoal/core/spec.h"
#include "shoal/data/samples.h"
#include "shoal/replays/replay.h"

namespace shoal {

class Priorities;
class ProcessGroup;
class ReplayShare;
class StepStore;

struct StepReplayOptions {
  std::int64_t size = 1'000'000;  // steps of all environments together that can be drawn
  int n_step = 1;                 // rewards that are added up before a value is looked at, 1 to 255
  double discount = 0.99;         // gamma
  // Draw a step in proportion to the power of its priority (Schaul et al., arXiv 1511.05952), not
  // each of them alike.
  bool prioritized = false;
  double alpha = 0.6;                 // that power
  std::uint64_t seed = 1;             // of what is drawn
  std::int64_t largest_batch = 1024;  // steps that are drawn at once
  // The environments are so many slices, one after the other, as many steps are drawn of each, and
  // each has a generator and priorities of its own: so several processes with a slice or more each
  // draw together what one with all of them draws. first_slice: what the first one is among all.
  int slices = 1, first_slice = 0;
};

// N steps, each with the rewards of up to n of them and the observation after those: what a value
// is to be learned from is
//
//   reward + discount * value(next_observation).
//
// The n steps end early where the episode does: after a termination the discount is 0, and a
// truncated episode goes on from its true last observation. A lost life is a termination.
struct Transitions {
  // N each. Stacked ones refer to the replay's own frames: nothing is copied before they are turned
  // into numbers.
  Observations observation, next_observation;
  NamedTensors action;           // [N, ...]
  NamedTensors mask, next_mask;  // [N, n] bool, if there are action masks
  at::Tensor reward;             // [N] float32: r_0 + gamma r_1 + ... + gamma^(k-1) r_(k-1)
  at::Tensor discount;           // [N] float32: gamma^k, or 0
  at::Tensor weight;  // [N] float32: of importance, 1 where all are drawn alike; the largest is 1
  at::Tensor index;   // [N] int64: names the steps, for update_priorities()
  // Of those of these steps that was least likely to be drawn, in its slice; 0 where all are drawn
  // alike.
  double least_probability = 0;
};

// The last steps of B environments, to be drawn at random. Every observation is stored once, of a
// stack the newest frame only. On the CPU.
class StepReplay : public Replay {
 public:
  // Takes all its memory at once. Throws Error for options that make no sense, and with both
  // numbers, if it is more than there is.
  StepReplay(const EnvSpec& env, std::int64_t envs, const StepReplayOptions& options);
  // The part that this rank has in a replay of all ranks' environments, which all draw from. envs,
  // options, size() and n: of all ranks together, as if one had it; the environments of rank r are
  // the r-th part. append() and save() are of this rank's environments, and sample() gives this
  // rank's part of the batch that one would draw. All ranks call the same functions in the same
  // order; there is one slice. Throws Error where the other one does, for more slices, and for
  // environments that they cannot share evenly.
  StepReplay(const EnvSpec& env, std::int64_t envs, const StepReplayOptions& options,
             ProcessGroup& ranks, const ReplayMemory& memory);
  ~StepReplay() override;
  StepReplay(const StepReplay&) = delete;
  StepReplay& operator=(const StepReplay&) = delete;

  // What such a replay takes, to be told before one is made. Episodes that are truncated add their
  // last observations.
  static std::size_t bytes(const EnvSpec& env, std::int64_t envs, const StepReplayOptions& options);

  // T: at most size / B. New steps get the largest priority so far.
  void append(const Samples& samples) override;
  // The last n - 1 steps of each environment are not complete yet.
  std::int64_t size() const override;
  NamedTensors save() override;
  void restore(const NamedTensors& saved) override;
  bool prioritized() const;
  int slices() const;
  int first_slice() const { return first_slice_; }
  bool is_shared() const;

  // Draws n steps, n / slices() of each slice in turn, with replacement; a view that is valid until
  // the next call of this or of append(). Prioritized, the range of priorities is cut into n equal
  // parts and one step is drawn from each. beta: how far the weights make up for that, 0 to 1; they
  // are (size * probability)^-beta, divided by the largest. Throws Error while there is nothing to
  // draw, for more than largest_batch, and for what slices() or the ranks cannot share evenly.
  const Transitions& sample(std::int64_t n, double beta = 1);

  // index: as drawn. priority: [N] float32, above 0. Steps that have been overwritten meanwhile are
  // left out.
  void update_priorities(const at::Tensor& index, const at::Tensor& priority);

 private:
  StepReplay(const EnvSpec& env, std::int64_t envs, const StepReplayOptions& options,
             const ReplayShare& share);
  void offer(std::int64_t tick, bool can_be_drawn);
  struct Slice;
  void draw_alike(std::size_t slice, std::span<std::int64_t> cells);
  std::int64_t cell_of_slice(std::size_t slice, std::int64_t cell) const;
  std::int64_t slice_envs() const;

  std::int64_t largest_batch_;
  int first_slice_;
  std::unique_ptr<ReplayShare> share_;
  std::unique_ptr<StepStore> store_;
  std::vector<Slice> slices_;
  std::int64_t size_ = 0;
  Transitions batch_;
  std::vector<std::int64_t> drawn_;  // work space: cells, for all ranks
  std::vector<double> probability_;  // likewise: of each to be drawn
  std::unique_ptr<bool[]> row_;      // likewise: which of a row can be drawn
};

}  // namespace shoal
