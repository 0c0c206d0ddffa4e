#pragma once

#include <torch/nn/module.h>

#include <cstdint>
#include <memory>

#include "shoal/agents/actor_critic.h"
#include "src/compute/noise.h"

namespace shoal {

// The random numbers of one step. Each depends only on the key's seed and tick, the environment and
// its own number.
class Noise {
 public:
  explicit Noise(const NoiseKey& key) : key_(key) {}

  // [0, 1)
  float uniform(std::int64_t row, std::int64_t number) const {
    const auto [env, tick] = key_.row(row);
    return noise_uniform(key_.seed, env, tick, number);
  }
  // Standard normal, from the numbers `number` and `number` + 1.
  float normal(std::int64_t row, std::int64_t number) const;
  // The numbers [first, first + n) of `rows` rows.
  struct Block {
    std::int64_t rows, first, n;
  };
  // [rows, n] on the device; uniform() uses n numbers of each row, normal() 2n.
  at::Tensor uniform(const Block& block, at::Device device) const;
  at::Tensor normal(const Block& block, at::Device device) const;

  at::Tensor envs(std::int64_t rows, at::Device device) const;  // [rows] int64

  const NoiseKey& key() const { return key_; }
  bool on_device() const { return key_.env_tick.defined(); }

 private:
  at::Tensor uniform_there(const Block& block) const;
  NoiseKey key_;
};

// Standard normal numbers [N, n] of uniform ones [N, n, 2], as Noise::normal() makes them.
at::Tensor normal_of(const at::Tensor& uniform);

// N rows for which a head chooses one component of the action.
struct HeadIn {
  at::Tensor policy;  // [N, size()]: this head's part of the policy output
  at::Tensor mask;    // [N, choices] bool, or undefined
  const Noise& noise;
  std::int64_t first_number;  // of this head's noise
  bool greedy;
  bool by_rows;  // float32 on the CPU, where loops over the rows are faster than tensor operations
};

// Actions that were taken, and the current policy output for them.
struct HeadEvaluateIn {
  at::Tensor policy, mask, action, raw;  // raw: undefined if it records none
};

struct HeadEvaluation {
  at::Tensor log_prob, entropy;  // [N], with gradients
};

struct HeadOut {
  at::Tensor action;  // the most likely one
  NamedTensors distribution;
  at::Tensor sample = {}, log_prob = {};  // undefined without noise
};

// The distribution of one component of an action, parameterised by the policy output.
class Head : public torch::nn::Module {
 public:
  virtual std::int64_t size() const = 0;               // policy outputs it reads
  virtual std::int64_t noise_size() const = 0;         // random numbers it uses for an action
  virtual std::int64_t raw_size() const { return 0; }  // size of `raw`; 0: none is recorded

  // Writes the action [N, ...] and raw [N, raw_size()], and adds to log_prob [N].
  virtual void act(const HeadIn& in, at::Tensor& action, at::Tensor& raw, at::Tensor& log_prob) = 0;
  virtual HeadEvaluation evaluate(const HeadEvaluateIn& in) = 0;
  // This head's part of Agent::policy_outputs(). policy: [N, size()]; mask: as in HeadIn; noise:
  // [N, noise_size()], or undefined.
  virtual HeadOut outputs(const at::Tensor& policy, const at::Tensor& mask,
                          const at::Tensor& noise) const = 0;
};

// Storage of choices: one as [N] int64, several as [N, choices] int64, bits as [N, choices] bool.
enum class Stored : std::uint8_t { kNumber, kNumbers, kBits };
// Independent categorical distributions over `choices[i]` values each.
std::shared_ptr<Head> make_categorical_head(std::vector<std::int64_t> choices, Stored stored);
std::shared_ptr<Head> make_gaussian_head(const ActionSpec& spec, const ActorCriticOptions& options);
// The head for this kind of action.
std::shared_ptr<Head> make_head(const ActionSpec& spec, const ActorCriticOptions& options);

}  // namespace shoal
