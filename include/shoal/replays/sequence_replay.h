#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <memory>
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
  std::int64_t size = 1'000'000;  // steps of all environments together that are kept
  std::int64_t burn_in = 40;      // rows that only bring the state up to date
  std::int64_t length = 80;       // rows to learn from behind them
  // Steps of a rollout, SamplerOptions::horizon: a sequence begins where a rollout did, with the
  // state that Samples::initial_state has for it.
  std::int64_t interval = 40;
  int n_step = 5;           // rewards that are added up before a value is looked at, 1 to 255
  double discount = 0.997;  // gamma
  // Draw a sequence in proportion to the power of its priority, not each of them alike.
  bool prioritized = true;
  double alpha = 0.9;               // that power
  std::uint64_t seed = 1;           // of what is drawn
  std::int64_t largest_batch = 64;  // sequences that are drawn at once
};

// N sequences of R = burn_in + length + n rows, time-major. A row is an observation with all that
// an agent is told beside it. Where an episode was truncated, its true last observation is a row
// of its own, in which nothing was done. Episodes may end anywhere; `is_first` tells.
//
// The `length` rows behind the burn-in are to be learned from: with k = next, the value of what was
// done in row t is
//
//   reward + discount * value(row t + k).
struct Sequences {
  std::int64_t rows = 0, burn_in = 0, length = 0;  // R and what it is made of

  // R * N each, the first N of them the first row. Stacked ones refer to the replay's own frames.
  Observations observation;
  NamedTensors mask;             // [R * N, n] bool, if there are action masks
  NamedTensors previous_action;  // [R * N, ...]; zeros where `is_first`
  at::Tensor previous_reward;    // [R * N] float32; likewise
  at::Tensor is_first;           // [R * N] bool
  NamedTensors state;            // [N, ...], the agent's before the first row

  // length * N each.
  NamedTensors action;  // [length * N, ...]
  at::Tensor reward;    // float32: r_0 + gamma r_1 + ... + gamma^(k-1) r_(k-1)
  at::Tensor discount;  // float32: gamma^k, or 0 after a termination
  at::Tensor next;      // int64: k, in rows; at most n
  at::Tensor valid;     // bool: something was done there

  at::Tensor weight;             // [N] float32: of importance, as Transitions::weight
  at::Tensor index;              // [N] int64: names the sequences, for update_priorities()
  double least_probability = 0;  // as Transitions::least_probability
};

// The last steps of B environments, drawn as sequences to bring a recurrent agent through. Every
// observation is stored once, of a stack the newest frame only. On the CPU.
class SequenceReplay : public Replay {
 public:
  // state: AgentSpec::state. Takes all its memory at once. Throws Error for options that make no
  // sense, and with both numbers, if it is more than there is.
  SequenceReplay(const EnvSpec& env, const NamedSpecs& state, std::int64_t envs,
                 const SequenceReplayOptions& options);
  // The part that this rank has in a replay of all ranks: see StepReplay.
  SequenceReplay(const EnvSpec& env, const NamedSpecs& state, std::int64_t envs,
                 const SequenceReplayOptions& options, ProcessGroup& ranks,
                 const ReplayMemory& memory);
  ~SequenceReplay() override;
  SequenceReplay(const SequenceReplay&) = delete;
  SequenceReplay& operator=(const SequenceReplay&) = delete;

  // What such a replay takes, to be told before one is made. Episodes that are truncated add their
  // last observations.
  static std::size_t bytes(const EnvSpec& env, const NamedSpecs& state, std::int64_t envs,
                           const SequenceReplayOptions& options);

  // Rollouts of `interval` steps. New sequences get the largest priority so far.
  void append(const Samples& samples) override;
  // Sequences that are complete.
  std::int64_t size() const override { return size_; }
  NamedTensors save() override;
  void restore(const NamedTensors& saved) override;
  bool prioritized() const { return priorities_ != nullptr; }
  bool is_shared() const;
  const SequenceReplayOptions& options() const { return options_; }

  // Draws n sequences, with replacement, as StepReplay::sample() draws steps; a view that is valid
  // until the next call of this or of append().
  const Sequences& sample(std::int64_t n, double beta = 1);

  // index: as drawn. priority: [N] float32, above 0. Sequences of which something has been
  // overwritten meanwhile are left out.
  void update_priorities(const at::Tensor& index, const at::Tensor& priority);

 private:
  // The cell of a step, or of the last observation behind it.
  struct Place {
    std::int64_t cell;
    bool last;
  };

  SequenceReplay(const EnvSpec& env, const NamedSpecs& state, std::int64_t envs,
                 const SequenceReplayOptions& options, const ReplayShare& share);
  // Of what is kept of all rollouts, [kept, B, ...], that of this rank's environments.
  at::Tensor own(const at::Tensor& x) const;
  std::int64_t oldest() const;  // the first rollout whose sequences can be drawn; and the end
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
  std::unique_ptr<Priorities> priorities_;  // of rollouts % kept_ * B + b; null: all alike
  std::int64_t kept_;                       // rollouts whose states are kept
  NamedTensors states_;                     // [kept, B, ...]
  std::unique_ptr<bool[]> can_be_drawn_;    // [kept, B]
  std::int64_t rollouts_ = 0, size_ = 0;
  Rng rng_;
  Sequences batch_;
  std::vector<std::int64_t> drawn_;  // work space: rollout % kept_ * B + b, for all ranks
  std::vector<double> probability_;  // likewise
  std::vector<Place> places_;        // likewise: of the batch's rows
};

}  // namespace shoal
