#include "src/models/run_model.h"

#include <ATen/core/grad_mode.h>

#include <memory>
#include <vector>

#include "shoal/core/error.h"

namespace shoal {
namespace {

class InEvaluation {
 public:
  explicit InEvaluation(torch::nn::Module& model) : model_(model) {
    for (auto& part : model.modules(/*include_self=*/false))
      if (!part->is_training()) frozen_.push_back(std::move(part));
    model.eval();
  }
  InEvaluation(const InEvaluation&) = delete;
  InEvaluation& operator=(const InEvaluation&) = delete;
  ~InEvaluation() {
    model_.train();
    for (const auto& part : frozen_) part->eval();
  }

 private:
  torch::nn::Module& model_;
  std::vector<std::shared_ptr<torch::nn::Module>> frozen_;
};

}  // namespace

ModelOut run_model(ActorCriticModel& model, const ModelIn& in) {
  if (at::GradMode::is_enabled() || !model.is_training()) return model.forward(in);
  const InEvaluation evaluation(model);
  return model.forward(in);
}

ModelOut run_model(ActorCriticModel& model, const ModelIn& in, std::int64_t outputs) {
  auto out = run_model(model, in);
  require_outputs(out.policy.size(1), outputs);
  return out;
}

void require_outputs(std::int64_t found, std::int64_t expected) {
  require(found == expected,
          "the model has {} outputs for the policy, expected {}, policy_size() of the environment "
          "and the options of the agent",
          found, expected);
}

}  // namespace shoal
