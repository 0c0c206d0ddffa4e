#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "shoal/algos/algo.h"
#include "shoal/data/samples.h"

namespace shoal {

// The numbers of several updates as their means, by name, in the order in which they came first.
class MetricMeans {
 public:
  void add(const Metrics& metrics);
  // The means; begins anew.
  Metrics take();

  // [2] double by name: sum and count.
  NamedTensors save() const;
  void restore(const NamedTensors& saved);

 private:
  struct Sum {
    std::string name;
    double sum = 0, count = 0;
  };
  std::vector<Sum> sums_;
};

}  // namespace shoal
