#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <memory>

#include "shoal/agents/actor_critic.h"
#include "src/compute/noise.h"

namespace shoal {

// The random numbers of one step: each depends on its key, its environment and its own number only.
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
  // Which of them, of how many rows.
  struct Block {
    std::int64_t rows, first, n;
  };
  // [rows, n] on the device, from n numbers for uniform ones and 2n for normal ones.
  at::Tensor uniform(const Block& block, at::Device device) const;
  at::Tensor normal(const Block& block, at::Device device) const;

  at::Tensor envs(std::int64_t rows, at::Device device) const;  // [rows] int64

  const NoiseKey& key() const { return key_; }
  bool on_device() const { return key_.env_tick.defined(); }

 private:
  at::Tensor uniform_there(const Block& block) const;
  NoiseKey key_;
};

// N rows of which a head chooses one part of the action.
struct HeadIn {
  at::Tensor policy;  // [N, size()]: its numbers of the policy's output
  at::Tensor mask;    // [N, choices] bool, or undefined
  const Noise& noise;
  std::int64_t first_number;  // of the noise that is its own
  bool greedy;
  bool by_rows;  // everything is float32 on the CPU: loops over the rows beat tensor operations
};

// What a head learns from: the actions that were taken.
struct HeadEvaluateIn {
  at::Tensor policy, mask, action, raw;  // raw: undefined if it records none
};

struct HeadEvaluation {
  at::Tensor log_prob, entropy;  // [N], with gradients
};

// How one part of an action is chosen from what the network puts out.
class Head : public torch::nn::Module {
 public:
  virtual std::int64_t size() const = 0;               // numbers of the policy's output it reads
  virtual std::int64_t noise_size() const = 0;         // random numbers it takes for an action
  virtual std::int64_t raw_size() const { return 0; }  // numbers it records; 0: nothing

  // Writes the action [N, ...] and raw [N, raw_size()], and adds to log_prob [N].
  virtual void act(const HeadIn& in, at::Tensor& action, at::Tensor& raw, at::Tensor& log_prob) = 0;
  virtual HeadEvaluation evaluate(const HeadEvaluateIn& in) = 0;
  // The most likely action [N, ...], by tensor operations alone, of `policy` [N, size()]. mask: as
  // in HeadIn.
  virtual at::Tensor most_likely(const at::Tensor& policy, const at::Tensor& mask) const = 0;
};

// How choices are stored: one as [N] int64, several as [N, choices] int64, bits as [N, choices]
// bool.
enum class Stored : std::uint8_t { kNumber, kNumbers, kBits };
// Independent choices, of `choices[i]` each.
std::shared_ptr<Head> make_categorical_head(std::vector<std::int64_t> choices, Stored stored);
std::shared_ptr<Head> make_gaussian_head(const ActionSpec& spec, const ActorCriticOptions& options);
// The one for this kind of action.
std::shared_ptr<Head> make_head(const ActionSpec& spec, const ActorCriticOptions& options);

}  // namespace shoal
