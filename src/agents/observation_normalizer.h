#pragma once

#include <torch/nn/module.h>

#include "shoal/core/spec.h"
#include "shoal/data/samples.h"

namespace shoal {

// Brings every number of the observed fields of real numbers to mean 0 and deviation 1, as seen so
// far, and cuts what is further than 10 deviations away. Other fields pass as they are. Its
// buffers, double precision, are "FIELD/count", "FIELD/mean" and "FIELD/variance".
class ObservationNormalizer : public torch::nn::Module {
 public:
  explicit ObservationNormalizer(const NamedSpecs& observation);

  // Of a rollout's observations, those that were acted on: "FIELD/count", "FIELD/mean" and
  // "FIELD/variance".
  NamedTensors statistics(const Samples& samples) const;
  // Takes them into account.
  void add(const NamedTensors& statistics);
  // To be called after the buffers were written to, by add() or from elsewhere.
  void refresh();

  Observations operator()(const Observations& observation) const;

 private:
  struct Field {
    std::string name, prefix;          // of the observation, of what is known of it
    at::ScalarType type;               // of the observation
    at::Tensor count, mean, variance;  // double: [], [...], [...]
    at::Tensor shift, scale;           // type, float: what is subtracted, and multiplied with
  };
  std::vector<Field> fields_;
};

}  // namespace shoal
