#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "shoal/algos/algo.h"
#include "shoal/data/samples.h"

namespace shoal {

// Means of the metrics of several updates, by name, in the order of first appearance. For totals
// since the start: the newest value.
class MetricMeans {
 public:
  void add(const Metrics& metrics);
  Metrics means() const;
  void clear() { sums_.clear(); }

  // One tensor [2] of double per name: sum and count.
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
