#pragma once

#include <cstdint>
#include <memory>

#include "algos/qpg/qpg_learner.h"
#include "algos/replay_learning.h"
#include "shoal/core/error.h"

namespace shoal {

// The options of SAC, TD3 or DDPG in the form that their common update reads.
struct QpgSettings {
  QpgUpdate update;                           // of every update, but for what changes
  std::int64_t batch = 256;                   // steps of one update
  Precision precision = Precision::kFloat32;  // of the networks' products, on the CPU
  bool anneal_learning_rate = false;          // all of them, linearly to 0 over the schedule
  std::int64_t policy_interval = 1;       // updates between two of the policy and of all targets
  double exploration = 1;                 // deviation of the noise once it learns
  double beta_start = 0.4, beta_end = 1;  // of importance weights, over the schedule
  // Stochastic policies learn alpha, so that the mean of -log p becomes target_entropy.
  bool learn_alpha = false;
  double target_entropy = 0, alpha_rate = 0;
};

// MLPs on the CPU learn by the fused learner, others by tensor operations. name: of the algorithm,
// in errors.
std::unique_ptr<OffPolicyAlgo> make_qpg_algo(const char* name, QpgAgent& agent, StepReplay& replay,
                                             const QpgSettings& settings, ProcessGroup& ranks);

// Throws Error unless the agent's policy is of this kind.
void require_policy(const char* name, const QpgAgent& agent, bool stochastic);

// The common part of the declarations.
template <class Self, class Options>
class QpgSpecOf : public BatchSpecOf<Self, Options> {
 public:
  void check(const RunOptions& run) const override {
    OffPolicySpec::check(run);
    require(this->own_.precision == Precision::kFloat32 || run.model.name == "mlp" ||
                run.model.name == "auto",  // the algorithm checks what it turns out to be
            "{}.precision: found bf16, expected float32 with model '{}'; bf16 is for mlp "
            "(model.precision is that of nature-cnn)",
            this->name(), run.model.name);
  }
};

}  // namespace shoal
