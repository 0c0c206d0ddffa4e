#pragma once

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "shoal/data/samples.h"

namespace shoal {

// The steps of one update.
struct Minibatch {
  at::Tensor rows;  // [n] int64, of the T * B steps of a rollout
  at::Tensor envs;  // environments, if the rows are whole sequences; undefined: any steps

  // Splits it into so many pieces, the last of which are empty if it is small: ranks with
  // minibatches of other sizes make the same collective calls.
  std::vector<Minibatch> pieces(const Samples& samples, std::int64_t count) const;
};

struct MinibatchOptions {
  int count = 1;                    // minibatches of an epoch
  int slices = 1, first_slice = 0;  // of this rank; number of its first slice among all ranks'
  std::uint64_t seed = 1;
  bool whole_sequences = false;  // not single steps
};

// Divides a rollout into shuffled minibatches. Every minibatch takes the same number of steps, or
// sequences, from each slice; each slice has its own order.
class Minibatches {
 public:
  explicit Minibatches(const MinibatchOptions& options);

  // Throws Error if there are fewer steps or sequences than minibatches, or if the slices are of
  // unequal size. update: the number of the update, which seeds all orders.
  void begin(const Samples& samples, std::uint64_t update);
  // The minibatches of one epoch; always `count`, because all ranks must make the same updates.
  std::vector<Minibatch> shuffled(const Samples& samples);

 private:
  at::Tensor of_slice(const at::Tensor& those, std::size_t slice, std::int64_t B) const;

  MinibatchOptions options_;
  at::Tensor all_;                         // [n] int64: steps, or environments, of the rollout
  std::vector<at::Generator> generators_;  // of this update, one for each slice
};

}  // namespace shoal
