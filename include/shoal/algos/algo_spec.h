#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <typeinfo>
#include <vector>

#include "shoal/agents/actor_critic.h"
#include "shoal/agents/agent.h"
#include "shoal/algos/algo.h"
#include "shoal/algos/off_policy.h"
#include "shoal/core/option.h"
#include "shoal/distributed/process_group.h"
#include "shoal/models/actor_critic.h"
#include "shoal/replays/replay.h"

namespace shoal {

// The table [off_policy]: how algorithms that learn from a replay take turns with sampling.
struct OffPolicyOptions {
  std::int64_t learning_starts = 10'000;  // steps with random actions before learning begins
  // Steps that are drawn from the replay for each step that is taken after those: rlpyt's replay
  // ratio. With batches of as many steps there is an update for every step.
  double replay_ratio = 8;
  bool epsilon_each = false;  // every environment has an epsilon of its own
};

// The table [replay], for all ranks together; see StepReplayOptions and SequenceReplayOptions.
struct ReplayOptions {
  std::int64_t size = 1'000'000;
  int n_step = 1;
  double discount = 0.99;
  bool prioritized = false;
  double alpha = 0.6;
  int slices = 0;       // 0: one for each rank
  bool shared = false;  // all ranks draw from one replay, on one machine; else each from its own
};

OptionList describe(OffPolicyOptions& options);
OptionList describe(ReplayOptions& options);

// The options of a run that an algorithm reads beside its own.
struct RunOptions {
  ModelOptions model;
  ActorCriticOptions agent;
  OffPolicyOptions off_policy;
  ReplayOptions replay;
  std::int64_t horizon, envs;  // of all ranks together
  int ranks;
  std::uint64_t seed;
};

// Declares an algorithm: its name, its options with their values in one run, and what is made from
// them. Runners, files, the command line and the documentation know an algorithm by this alone.
class AlgoSpec {
 public:
  virtual ~AlgoSpec() = default;

  virtual std::string name() const = 0;         // in files; also the table of its options
  virtual std::string description() const = 0;  // one line, with the paper
  virtual std::unique_ptr<AlgoSpec> clone() const = 0;

  virtual OptionList options() = 0;  // bound to this object
  // The options struct of this type, or null.
  virtual void* find_options(const std::type_info&) { return nullptr; }
  // Throws Error for values that cannot work together, or not in this run.
  virtual void check(const RunOptions& run) const = 0;

  // Whether what make() makes learns together with the other ranks; otherwise a run has one.
  virtual bool uses_ranks() const { return false; }

  virtual double discount(const RunOptions& run) const = 0;
  virtual bool anneals_learning_rate() const { return false; }  // to 0 over the schedule
  // Steps whose activations are in memory at once when it learns.
  virtual std::int64_t steps_at_once(const RunOptions& run) const = 0;

  // On the CPU.
  virtual std::unique_ptr<Agent> make_agent(const EnvSpec& env, const RunOptions& run) const = 0;
};

class OnPolicySpec : public AlgoSpec {
 public:
  // An actor-critic around `run.model`.
  std::unique_ptr<Agent> make_agent(const EnvSpec& env, const RunOptions& run) const override;
  std::int64_t steps_at_once(const RunOptions& run) const override {
    return run.horizon * run.envs;
  }
  void check(const RunOptions&) const override {}

  // The agent is that of make_agent(), on its device; it and `ranks` outlive the algorithm.
  virtual std::unique_ptr<OnPolicyAlgo> make(Agent& agent, const RunOptions& run,
                                             ProcessGroup& ranks) const = 0;
};

// Learns from a StepReplay, unless make_replay() is overridden.
class OffPolicySpec : public AlgoSpec {
 public:
  double discount(const RunOptions& run) const override { return run.replay.discount; }
  // Activations of a batch, of the next observations and of the target network.
  std::int64_t steps_at_once(const RunOptions&) const override { return batch_steps(); }
  void check(const RunOptions& run) const override;

  // Items that all ranks together draw for one update, and the steps in those items.
  virtual std::int64_t batch() const = 0;
  virtual std::int64_t batch_steps() const { return batch(); }

  // Bytes of the replay of all ranks.
  virtual std::size_t replay_bytes(const EnvSpec& env, const Agent& agent,
                                   const RunOptions& run) const;
  // This rank's part of the replay, or of `memory` the one that all ranks share.
  virtual std::unique_ptr<Replay> make_replay(const EnvSpec& env, const Agent& agent,
                                              const RunOptions& run, ProcessGroup& ranks,
                                              const ReplayMemory* memory) const;
  // The agent is that of make_agent(), on its device, the replay that of make_replay(); they and
  // `ranks` outlive the algorithm.
  virtual std::unique_ptr<OffPolicyAlgo> make(Agent& agent, Replay& replay, const RunOptions& run,
                                              ProcessGroup& ranks) const = 0;

 protected:
  // That the ranks can share the replay and its batches.
  void check_replay(const RunOptions& run) const;
};

// Implements what every spec with one options struct has in common. `Options` is described.
template <class Self, class Base, class Options>
class SpecOf : public Base {
 public:
  std::unique_ptr<AlgoSpec> clone() const override {
    return std::make_unique<Self>(static_cast<const Self&>(*this));
  }
  OptionList options() override { return describe(own_); }
  void* find_options(const std::type_info& type) override {
    return type == typeid(Options) ? &own_ : nullptr;
  }

 protected:
  Options own_;
};

// Makes an algorithm known by its name to everything that reads a Config made afterwards. Throws
// Error if the name is taken. Call it from the main thread, before any Config is made.
void register_algo(std::unique_ptr<AlgoSpec> spec);

// One spec of every known algorithm; copies have options of their own.
class AlgoSpecs {
 public:
  AlgoSpecs();
  AlgoSpecs(const AlgoSpecs& other);
  AlgoSpecs(AlgoSpecs&&) noexcept = default;
  AlgoSpecs& operator=(AlgoSpecs other) noexcept;
  ~AlgoSpecs() = default;

  // Throws Error, naming the nearest one, if there is none of this name.
  AlgoSpec& at(const std::string& name) const;
  std::vector<std::string> names() const;
  auto begin() const { return all_.begin(); }
  auto end() const { return all_.end(); }

 private:
  std::vector<std::unique_ptr<AlgoSpec>> all_;
};

}  // namespace shoal
