#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
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

struct SequenceReplayOptions {
  std::int64_t size = 1'000'000;  // steps that are kept, over all environments
  std::int64_t burn_in = 40;      // rows that only refresh the recurrent state
  std::int64_t length = 80;       // rows to learn from, after the burn-in
  // Steps of a rollout, SamplerOptions::horizon. A sequence begins where a rollout began, with the
  // state in Samples::initial_state. Steps are in no sequence where this and the number of
  // episodes that are truncated within as many steps exceed `length`.
  std::int64_t interval = 40;
  int n_step = 5;           // n of n-step returns, 1 to 255
  double discount = 0.997;  // gamma
  // Draw a sequence with probability proportional to priority^alpha, not uniformly.
  bool prioritized = true;
  double alpha = 0.9;
  std::uint64_t seed = 1;           // of the draws
  std::int64_t largest_batch = 64;  // most sequences of one draw
};

// N sequences of R = burn_in + length + n rows, time-major. A row is an observation and the other
// inputs of the agent. The final observation of a truncated episode is a row of its own, without an
// action. Episodes may end anywhere; `is_first` marks their beginnings.
//
// The `length` rows after the burn-in are to be learned from. With k = next, the value target of
// the action of row t is
//
//   reward + discount * value(row t + k).
struct Sequences {
  std::int64_t rows = 0, burn_in = 0, length = 0;  // rows: R

  // R * N each, the first N of them the first row. Stacked frames refer to the replay's memory.
  Observations observation;
  NamedTensors mask;             // [R * N, n] bool, if there are action masks
  NamedTensors previous_action;  // [R * N, ...]; zeros where `is_first`
  at::Tensor previous_reward;    // [R * N] float32; zeros where `is_first`
  at::Tensor is_first;           // [R * N] bool
  NamedTensors state;            // [N, ...], the agent's state before the first row

  // length * N each.
  NamedTensors action;  // [length * N, ...]
  at::Tensor reward;    // float32: r_0 + gamma r_1 + ... + gamma^(k-1) r_(k-1)
  at::Tensor discount;  // float32: gamma^k, or 0 after a termination
  at::Tensor next;      // int64: k, in rows; at most n
  at::Tensor valid;     // bool: the row has an action

  at::Tensor weight;             // [N] float32: importance weights, as Transitions::weight
  at::Tensor index;              // [N] int64: identifies the sequences, for update_priorities()
  double least_probability = 0;  // see Transitions
};

// The last steps of B environments, drawn as sequences for a recurrent agent. Every observation is
// stored once; of a frame stack, only the newest frame. On the CPU.
class SequenceReplay : public Replay {
 public:
  // state: AgentSpec::state. Allocates all memory at once. Throws Error for invalid options, and,
  // with both sizes, if the machine has less memory.
  SequenceReplay(const EnvSpec& env, const NamedSpecs& state, std::int64_t envs,
                 const SequenceReplayOptions& options);
  // This rank's part of a replay that all ranks share: see StepReplay.
  SequenceReplay(const EnvSpec& env, const NamedSpecs& state, std::int64_t envs,
                 const SequenceReplayOptions& options, ProcessGroup& ranks,
                 const ReplayMemory& memory);
  ~SequenceReplay() override;
  SequenceReplay(const SequenceReplay&) = delete;
  SequenceReplay& operator=(const SequenceReplay&) = delete;

  // Memory of such a replay, without the final observations of truncated episodes.
  static std::size_t bytes(const EnvSpec& env, const NamedSpecs& state, std::int64_t envs,
                           const SequenceReplayOptions& options);

  // samples: a rollout of `interval` steps. New sequences get the largest priority so far.
  void append(const Samples& samples) override;
  // Complete sequences.
  std::int64_t size() const override { return size_; }
  NamedTensors save() override;
  void restore(const NamedTensors& saved) override;
  bool prioritized() const { return priorities_ != nullptr; }
  bool is_shared() const;
  const SequenceReplayOptions& options() const { return options_; }

  // Draws n sequences, with replacement, as StepReplay::sample() draws steps. The result is a view,
  // valid until the next sample() or append().
  const Sequences& sample(std::int64_t n, double beta = 1);

  // index: as drawn. priority: [N] float32, above 0. Sequences that have been partly overwritten
  // since are skipped.
  void update_priorities(const at::Tensor& index, const at::Tensor& priority);

 private:
  std::vector<std::pair<std::string, double>> settings() const;
  // The cell of a step, or of the final observation after it.
  struct Place {
    std::int64_t cell;
    bool last;
  };

  SequenceReplay(const EnvSpec& env, const NamedSpecs& state, std::int64_t envs,
                 const SequenceReplayOptions& options, const ReplayShare& share);
  // x: [kept, B, ...]; returns the view of this rank's environments.
  at::Tensor own(const at::Tensor& x) const;
  // Sequences of rollouts [oldest(), end()) can be drawn.
  std::int64_t oldest() const;
  std::int64_t end() const;
  void offer(std::int64_t rollout, bool can_be_drawn);
  bool learns(std::int64_t rollout, std::int64_t b) const;
  void prepare(std::int64_t n);
  void lay_out(std::int64_t rollout, std::int64_t b, std::int64_t i);
  void gather_rows();
  void gather_stack(std::size_t field);
  void gather_steps();

  SequenceReplayOptions options_;
  std::int64_t rows_;  // of a sequence
  std::unique_ptr<ReplayShare> share_;
  std::unique_ptr<StepStore> store_;
  std::unique_ptr<Priorities> priorities_;  // of rollouts % kept_ * B + b; null: uniform
  std::int64_t kept_;                       // rollouts whose states are kept
  NamedTensors states_;                     // [kept, B, ...]
  std::unique_ptr<bool[]> can_be_drawn_;    // [kept, B]
  std::int64_t rollouts_ = 0, size_ = 0;
  Rng rng_;
  Sequences batch_;
  // Work space.
  std::vector<std::int64_t> drawn_;  // rollout % kept_ * B + b, for all ranks
  std::vector<double> probability_;
  std::vector<Place> places_;  // of the batch's rows
};

}  // namespace shoal
