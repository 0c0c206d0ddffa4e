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
  std::int64_t size = 1'000'000;  // steps that can be drawn, over all environments
  int n_step = 1;                 // n of n-step returns, 1 to 255
  double discount = 0.99;         // gamma
  // Draw a step with probability proportional to priority^alpha (Schaul et al., arXiv 1511.05952),
  // not uniformly.
  bool prioritized = false;
  double alpha = 0.6;
  std::uint64_t seed = 1;             // of the draws
  std::int64_t largest_batch = 1024;  // most steps of one draw
  // The environments are divided into so many consecutive slices. Each slice has its own generator
  // and priorities, and contributes the same number of steps to a draw, so the draws do not depend
  // on how slices are distributed over processes. first_slice: the number of this replay's first
  // slice among those of all processes.
  int slices = 1, first_slice = 0;
};

// N steps, each with up to n rewards and the observation after those. The value target is
//
//   reward + discount * value(next_observation).
//
// The n steps end early where the episode does: the discount is 0 after a termination, and a
// truncated episode bootstraps from its final observation. A lost life is a termination.
struct Transitions {
  // N each. Stacked frames refer to the replay's memory and are copied only when converted to
  // tensors.
  Observations observation, next_observation;
  NamedTensors action;           // [N, ...]
  NamedTensors mask, next_mask;  // [N, n] bool, if there are action masks
  at::Tensor reward;             // [N] float32: r_0 + gamma r_1 + ... + gamma^(k-1) r_(k-1)
  at::Tensor discount;           // [N] float32: gamma^k, or 0
  at::Tensor weight;  // [N] float32: importance weights, at most 1; all 1 if drawn uniformly
  at::Tensor index;   // [N] int64: identifies the steps, for update_priorities()
  // The smallest probability, within its slice, among these steps; 0 if drawn uniformly.
  double least_probability = 0;
};

// The last steps of B environments, drawn at random. Every observation is stored once; of a frame
// stack, only the newest frame. On the CPU.
class StepReplay : public Replay {
 public:
  // Allocates all memory at once. Throws Error for invalid options, and, with both sizes, if the
  // machine has less memory.
  StepReplay(const EnvSpec& env, std::int64_t envs, const StepReplayOptions& options);
  // This rank's part of a replay of all ranks' environments, from which all ranks draw. envs,
  // options, size() and n count all ranks; the environments of rank r are the r-th part. append()
  // and save() are of this rank's environments, and sample() returns this rank's part of the common
  // batch. All ranks must call the same functions in the same order; there is one slice. Throws
  // Error as the other constructor, for more slices, and for environments that the ranks cannot
  // share evenly.
  StepReplay(const EnvSpec& env, std::int64_t envs, const StepReplayOptions& options,
             ProcessGroup& ranks, const ReplayMemory& memory);
  ~StepReplay() override;
  StepReplay(const StepReplay&) = delete;
  StepReplay& operator=(const StepReplay&) = delete;

  // Memory of such a replay, without the final observations of truncated episodes.
  static std::size_t bytes(const EnvSpec& env, std::int64_t envs, const StepReplayOptions& options);

  // T: at most size / B. New steps get the largest priority so far.
  void append(const Samples& samples) override;
  // Excludes the last n - 1 steps of each environment, which are not complete yet. 0 while a slice
  // has none, because each gives its part of a draw.
  std::int64_t size() const override;
  NamedTensors save() override;
  void restore(const NamedTensors& saved) override;
  bool prioritized() const;
  int slices() const;
  int first_slice() const { return first_slice_; }
  bool is_shared() const;

  // Draws n steps with replacement, n / slices() from each slice in turn. The result is a view,
  // valid until the next sample() or append(). If prioritized, the range of priorities is cut into
  // n equal parts and one step is drawn from each. beta: exponent of the importance weights, 0 to
  // 1; the weights are (size * probability)^-beta, divided by the largest. Throws Error while there
  // is nothing to draw, for n above largest_batch, and for n that slices() or the ranks cannot
  // share evenly.
  const Transitions& sample(std::int64_t n, double beta = 1);

  // index: as drawn. priority: [N] float32, above 0. Steps that have been overwritten since are
  // skipped.
  void update_priorities(const at::Tensor& index, const at::Tensor& priority);

 private:
  StepReplay(const EnvSpec& env, std::int64_t envs, const StepReplayOptions& options,
             const ReplayShare& share);
  void offer(std::int64_t tick, bool can_be_drawn);
  struct Slice;
  Slice& slice_of(std::int64_t env);
  void draw_alike(std::size_t slice, std::span<std::int64_t> cells);
  std::int64_t cell_of_slice(std::size_t slice, std::int64_t cell) const;
  std::int64_t slice_envs() const;

  std::int64_t largest_batch_;
  int first_slice_;
  std::unique_ptr<ReplayShare> share_;
  std::unique_ptr<StepStore> store_;
  std::vector<Slice> slices_;
  Transitions batch_;
  // Work space.
  std::vector<std::int64_t> drawn_;  // cells, for all ranks
  std::vector<double> probability_;  // of each drawn step
  std::unique_ptr<bool[]> row_;      // which steps of a row can be drawn
};

}  // namespace shoal
