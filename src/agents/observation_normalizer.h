#pragma once

#include <torch/nn/module.h>

#include "shoal/core/spec.h"
#include "shoal/data/samples.h"

namespace shoal {

// Whether a field is normalized: real and whole numbers, but no flags, no categorical numbers, and
// of bytes only a vector, such as the memory of an Atari game, no picture or table.
bool is_normalized(const ArraySpec& field);

// Normalizes every element of these observation fields to mean 0 and standard deviation 1 by
// running statistics, and clips it at 10 deviations. Other fields are unchanged. The buffers, in
// double precision, are "FIELD/count", "FIELD/mean" and "FIELD/variance".
class ObservationNormalizer : public torch::nn::Module {
 public:
  explicit ObservationNormalizer(const NamedSpecs& observation);

  // Statistics of the observations of a rollout's valid steps: "FIELD/count", "FIELD/mean" and
  // "FIELD/variance".
  NamedTensors statistics(const Samples& samples) const;
  // Merges them into the running statistics.
  void add(const NamedTensors& statistics);
  // Call after the buffers were written to, by add() or otherwise.
  void refresh();

  Observations operator()(const Observations& observation) const;

 private:
  struct Field {
    std::string name, prefix;          // of the observation field, of its buffers
    at::ScalarType type;               // in which the mean is subtracted
    at::Tensor count, mean, variance;  // double: [], [...], [...]
    at::Tensor shift, scale;           // type, float: subtracted, then multiplied
  };
  std::vector<Field> fields_;
};

}  // namespace shoal
