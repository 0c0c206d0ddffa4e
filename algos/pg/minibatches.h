#pragma once

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "shoal/data/samples.h"

namespace shoal {

// Steps to learn from together.
struct Minibatch {
  at::Tensor rows;  // [n] int64, of the T * B steps of a rollout
  at::Tensor envs;  // whose whole sequences these are; undefined: steps in any order

  // Cut into at most so many, each of which has something, if it has.
  std::vector<Minibatch> pieces(const Samples& samples, std::int64_t most) const;
};

struct MinibatchOptions {
  int count = 1;                    // of a pass over the rollout
  int slices = 1, first_slice = 0;  // of this rank's environments, and the first one among all
  std::uint64_t seed = 1;
  bool whole_sequences = false;  // not single steps
};

// The order in which a rollout is learned from: shuffled, and every minibatch takes as many steps,
// or sequences, of each slice, in an order of its own.
class Minibatches {
 public:
  explicit Minibatches(const MinibatchOptions& options);

  // Throws Error if there are not as many steps or sequences as minibatches, or slices of other
  // sizes. update: its number, from which all orders follow.
  void begin(const Samples& samples, std::uint64_t update);
  // Those of one pass over this rollout. Other ranks count on as many.
  std::vector<Minibatch> shuffled(const Samples& samples);

 private:
  at::Tensor of_slice(const at::Tensor& those, std::size_t slice, std::int64_t B) const;

  MinibatchOptions options_;
  at::Tensor all_;                         // [n] int64: steps, or environments, of the rollout
  std::vector<at::Generator> generators_;  // of this update, one for each slice
};

}  // namespace shoal
