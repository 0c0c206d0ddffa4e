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
#include "shoal/models/model_options.h"
#include "shoal/replays/replay.h"

namespace shoal {

// The table [off_policy]: how sampling and learning from a replay alternate.
struct OffPolicyOptions {
  std::int64_t learning_starts = 10'000;  // steps with random actions before learning begins
  // Steps drawn from the replay for each environment step after those: rlpyt's replay ratio. With
  // batches of `replay_ratio` steps there is one update per step.
  double replay_ratio = 8;
  bool epsilon_each = false;  // each environment has its own epsilon
};

// The table [replay], for all ranks together; see StepReplayOptions and SequenceReplayOptions.
struct ReplayOptions {
  std::int64_t size = 1'000'000;
  int n_step = 1;
  double discount = 0.99;
  bool prioritized = false;
  double alpha = 0.6;
  int slices = 0;       // 0: one for each rank
  bool shared = false;  // all ranks, on one machine, share a replay; otherwise each has its own
};

OptionList describe(OffPolicyOptions& options);
OptionList describe(ReplayOptions& options);

// The options of a run that an algorithm reads in addition to its own.
struct RunOptions {
  ModelOptions model;
  ActorCriticOptions agent;
  OffPolicyOptions off_policy;
  ReplayOptions replay;
  std::int64_t horizon, envs;  // of all ranks together
  // Rollouts of a rank at the same time: of workers that sample on their own, each with its part of
  // the environments.
  std::int64_t rollouts;
  int ranks;
  std::uint64_t seed;
};

// Declares an algorithm: its name, its options with their values in one run, and the factories of
// its agent, replay and algorithm. Runners, files, the command line and the documentation use an
// algorithm only through this interface.
class AlgoSpec {
 public:
  virtual ~AlgoSpec() = default;

  virtual std::string name() const = 0;         // in files; also the table of its options
  virtual std::string description() const = 0;  // one line, with the paper
  virtual std::unique_ptr<AlgoSpec> clone() const = 0;

  virtual OptionList options() = 0;  // bound to this object
  // The options struct of this type, or null.
  virtual void* find_options(const std::type_info&) { return nullptr; }
  // Throws Error for option values that contradict each other or the run's options.
  virtual void check(const RunOptions& run) const = 0;

  // Whether the algorithm supports several ranks; otherwise a run has one.
  virtual bool uses_ranks() const { return false; }

  virtual double discount(const RunOptions& run) const = 0;
  // The option that is 0 after the schedule, so that nothing more is learned: "learning_rate", for
  // example; "": none.
  virtual std::string annealed_to_0() const { return ""; }
  // Whether it may learn from what another policy than the agent's has done.
  virtual bool corrects_policy() const = 0;
  virtual bool uses_agent_options() const { return true; }  // RunOptions::agent
  // Steps whose activations are in memory at once while learning.
  virtual std::int64_t steps_at_once(const RunOptions& run) const = 0;

  // The agent is on the CPU.
  virtual std::unique_ptr<Agent> make_agent(const EnvSpec& env, const RunOptions& run) const = 0;
};

class OnPolicySpec : public AlgoSpec {
 public:
  // An actor-critic around `run.model`.
  std::unique_ptr<Agent> make_agent(const EnvSpec& env, const RunOptions& run) const override;
  bool corrects_policy() const override { return false; }
  std::int64_t steps_at_once(const RunOptions& run) const override;
  void check(const RunOptions&) const override {}

  // agent: from make_agent(), on its device already. It and `ranks` must outlive the algorithm.
  virtual std::unique_ptr<OnPolicyAlgo> make(Agent& agent, const RunOptions& run,
                                             ProcessGroup& ranks) const = 0;
};

// Learns from a StepReplay, unless make_replay() is overridden.
class OffPolicySpec : public AlgoSpec {
 public:
  double discount(const RunOptions& run) const override { return run.replay.discount; }
  bool corrects_policy() const override { return true; }
  // The steps of a batch; the memory check adds the activations of next observations.
  std::int64_t steps_at_once(const RunOptions&) const override { return batch_steps(); }
  void check(const RunOptions& run) const override;

  // Items (transitions or sequences) of one update over all ranks, and the steps in them.
  virtual std::int64_t batch() const = 0;
  virtual std::int64_t batch_steps() const { return batch(); }

  // Bytes of the replays of all ranks together.
  virtual std::size_t replay_bytes(const EnvSpec& env, const Agent& agent,
                                   const RunOptions& run) const;
  // This rank's replay or, with `memory`, its part of the replay that all ranks share.
  virtual std::unique_ptr<Replay> make_replay(const EnvSpec& env, const Agent& agent,
                                              const RunOptions& run, ProcessGroup& ranks,
                                              const ReplayMemory* memory) const;
  // agent: from make_agent(), on its device already; replay: from make_replay(). They and `ranks`
  // must outlive the algorithm.
  virtual std::unique_ptr<OffPolicyAlgo> make(Agent& agent, Replay& replay, const RunOptions& run,
                                              ProcessGroup& ranks) const = 0;

 protected:
  // Throws Error if the ranks cannot share the replay or its batches evenly.
  void check_replay(const RunOptions& run) const;
};

// The common implementation of specs with one options struct. `Options` needs describe().
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

// Registers an algorithm under its name, for every Config made afterwards. Throws Error if the name
// is taken. Call it from the main thread, before any Config is made.
void register_algo(std::unique_ptr<AlgoSpec> spec);

// One spec of every registered algorithm. A copy has its own options.
class AlgoSpecs {
 public:
  AlgoSpecs();
  AlgoSpecs(const AlgoSpecs& other);
  AlgoSpecs(AlgoSpecs&&) noexcept = default;
  AlgoSpecs& operator=(AlgoSpecs other) noexcept;
  ~AlgoSpecs() = default;

  // Throws Error, which suggests the most similar name, if there is no such algorithm.
  AlgoSpec& at(const std::string& name) const;
  std::vector<std::string> names() const;
  auto begin() const { return all_.begin(); }
  auto end() const { return all_.end(); }

 private:
  std::vector<std::unique_ptr<AlgoSpec>> all_;
};

}  // namespace shoal
