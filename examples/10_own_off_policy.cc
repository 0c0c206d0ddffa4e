// An off-policy algorithm of your own, with the whole command line, checkpoints and ranks: soft
// Q-learning, where the value of a state is the soft maximum of its action values.
//
//   build/release/bin/examples/10_own_off_policy train cartpole-dqn --set algo=soft_q
#include <torch/torch.h>

#include "shoal/agents/q_agent.h"
#include "shoal/algos/algo_spec.h"
#include "shoal/algos/optimizer.h"
#include "shoal/cli/command_line.h"
#include "shoal/replays/step_replay.h"

// [algo]
// Haarnoja et al., "Reinforcement learning with deep energy-based policies", arXiv 1702.08165.
struct SoftQOptions {
  double learning_rate = 2e-3;
  std::int64_t batch = 128;
  double temperature = 0.02;
  double tau = 0.02;
  double epsilon = 0.05;
};

// The settings of the algorithm: the table [soft_q] in files, for --set and `list settings`.
shoal::OptionList describe(SoftQOptions& o) {
  shoal::OptionList list("soft_q");
  list.add("learning_rate", o.learning_rate, "learning rate", shoal::kRate);
  list.add("batch", o.batch, "steps of one update", shoal::within(1, 1e6));
  list.add("temperature", o.temperature, "temperature of the soft maximum", shoal::above_0());
  list.add("tau", o.tau, "fraction by which the target network moves per update",
           shoal::above_0(1));
  list.add("epsilon", o.epsilon, "probability of a random action", shoal::kShare);
  return list;
}

class SoftQ : public shoal::OffPolicyAlgo {
 public:
  SoftQ(shoal::QAgent& agent, shoal::StepReplay& replay, const SoftQOptions& options,
        shoal::ProcessGroup& ranks)
      : agent_(agent),
        replay_(replay),
        options_(options),
        // A replay that all ranks share is told the whole batch, and returns this rank's part.
        drawn_(replay.is_shared() ? options.batch : options.batch / ranks.count()),
        optimizer_(ranks, shoal::OptimizerKind::kAdam, agent.learnable()) {
    optimizer_.set_learning_rate(options.learning_rate);
  }

  void explore(const shoal::Progress&, bool learning) override {
    agent_.epsilon().fill_(learning ? options_.epsilon : 1);
  }

  shoal::Metrics update(const shoal::Progress&, int updates) override {
    at::Tensor sum = at::zeros({2});
    for (int i = 0; i < updates; ++i) sum += learn(replay_.sample(drawn_));
    agent_.parameters_changed();
    return {{"loss", sum[0].item<double>() / updates},
            {"grad_norm", sum[1].item<double>() / updates}};
  }

  shoal::NamedTensors state() override { return optimizer_.state(); }  // for checkpoints

 private:
  at::Tensor learn(const shoal::Transitions& batch) {
    const auto next = agent_.target_values(batch.next_observation);
    const auto value =
        options_.temperature * (next / options_.temperature).logsumexp(1);  // soft maximum
    const auto target = batch.reward + batch.discount * value;
    const auto chosen =
        agent_.values(batch.observation).gather(1, batch.action[0].view({-1, 1})).squeeze(1);
    const auto error = target - chosen;
    if (replay_.prioritized()) replay_.update_priorities(batch.index, error.detach().abs() + 1e-6);
    const auto loss = (batch.weight * error.square()).mean() / 2;
    // Averages gradients and loss over the ranks.
    const auto metrics = optimizer_.step(agent_.gradients(loss), loss.detach().view(1), 10);
    agent_.update_target(options_.tau);
    return metrics;
  }

  shoal::QAgent& agent_;
  shoal::StepReplay& replay_;
  SoftQOptions options_;
  std::int64_t drawn_;
  shoal::DistributedOptimizer optimizer_;
};
// [algo]

// [spec]
class SoftQSpec : public shoal::SpecOf<SoftQSpec, shoal::OffPolicySpec, SoftQOptions> {
 public:
  std::string name() const override { return "soft_q"; }
  std::string description() const override { return "Soft Q-learning (arXiv 1702.08165)"; }
  bool uses_ranks() const override { return true; }
  std::int64_t batch() const override { return own_.batch; }

  std::unique_ptr<shoal::Agent> make_agent(const shoal::EnvSpec& env,
                                           const shoal::RunOptions& run) const override {
    return shoal::make_q_agent(env, run.model, shoal::QAgentOptions(), run.seed);
  }
  std::unique_ptr<shoal::OffPolicyAlgo> make(shoal::Agent& agent, shoal::Replay& replay,
                                             const shoal::RunOptions&,
                                             shoal::ProcessGroup& ranks) const override {
    return std::make_unique<SoftQ>(dynamic_cast<shoal::QAgent&>(agent),
                                   dynamic_cast<shoal::StepReplay&>(replay), own_, ranks);
  }
};

int main(int argc, char** argv) {
  shoal::register_algo(std::make_unique<SoftQSpec>());
  return shoal::run_command_line(argc, argv);
}
// [spec]
