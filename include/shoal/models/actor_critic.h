#pragma once

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "shoal/core/spec.h"
#include "shoal/data/samples.h"
#include "shoal/models/acting_network.h"

namespace shoal {

// N = time * sequences observations, time-major. Feed-forward models read the observations alone.
struct ModelIn {
  Observations observation;
  NamedTensors state;  // [sequences, ...] before the first step
  at::Tensor
      is_first;  // [N] bool: an episode starts here; state, action and reward before it are 0
  std::int64_t time = 1;
  NamedTensors previous_action = {};  // [N, ...]; meaningless where is_first
  at::Tensor previous_reward = {};    // [N] float32; likewise
};

struct ModelOut {
  at::Tensor policy;   // [N, policy_size]: parameters of the action distribution, e.g. logits
  at::Tensor value;    // [N]
  NamedTensors state;  // [sequences, ...] after the last step
};

// A network with a policy head and a value head. Parameters are registered by name, as torch
// modules do.
class ActorCriticModel : public torch::nn::Module {
 public:
  virtual ModelOut forward(const ModelIn& in) = 0;

  // What the model carries from step to step, of one sequence, all zeros where an episode starts;
  // empty for feed-forward models.
  virtual NamedSpecs state() const { return {}; }

  // A copy for acting, without gradients, in the layout and precision that is fastest on this CPU.
  // The model must outlive it. Null: use forward().
  virtual std::unique_ptr<ActingNetwork> make_acting_network(Precision) const { return nullptr; }
  // Likewise of a model with state, which is asked for this one instead.
  virtual std::unique_ptr<RecurrentActing> make_recurrent_acting() const { return nullptr; }
};

// What a model remembers with.
enum class MemoryKind : std::uint8_t {
  kNone,
  kLstm,  // Hochreiter and Schmidhuber, "Long short-term memory", 1997, with forget gates
  kGru,   // Cho et al., arXiv 1406.1078
};

struct ModelOptions {
  std::string name = "mlp";  // mlp | nature-cnn | a registered one
  // mlp: units of each hidden layer. Its input is all fields side by side; an int64 within bounds
  // of at most 1024 values is one of several choices and becomes as many inputs, 1 or 0.
  std::vector<std::int64_t> hidden = {64, 64};
  bool shared_trunk = false;  // mlp: policy and value share the hidden layers
  // nature-cnn: arithmetic of learning, and of acting where the model itself acts, as on a GPU. The
  // heads, parameters and their gradients are float32 whatever it is. On a CPU without instructions
  // for bfloat16 (AVX512-BF16) kBf16 is float32.
  Precision precision = Precision::kFloat32;
  // mlp, nature-cnn: a recurrent cell between the layers, which policy and value then share, and
  // the heads.
  MemoryKind memory = MemoryKind::kNone;
  std::int64_t memory_size = 128;    // its units
  bool memory_sees_previous = true;  // it also reads the previous action and the previous reward
};

// policy_size: numbers the policy head puts out for one observation. Parameters are initialised
// from `seed`. action: what a memory sees of the previous step. Throws Error for an unknown name,
// or observations the model cannot read.
std::shared_ptr<ActorCriticModel> make_model(const NamedSpecs& observation,
                                             std::int64_t policy_size, const ModelOptions& options,
                                             std::uint64_t seed,
                                             const Named<ActionSpec>& action = {});

// Makes a model of your own known by name. What it draws from torch's global generator while it is
// made depends on the seed alone. Throws Error if the name is taken.
using ModelFactory = std::function<std::shared_ptr<ActorCriticModel>(
    const NamedSpecs& observation, std::int64_t policy_size, const ModelOptions& options)>;
void register_model(const std::string& name, ModelFactory make);

// The models make_model() knows.
std::vector<std::string> model_names();

}  // namespace shoal
