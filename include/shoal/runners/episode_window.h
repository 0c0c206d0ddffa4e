#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "shoal/data/samples.h"

namespace shoal {

// Statistics of the last `size` finished episodes. Means are NaN before the first one.
class EpisodeWindow {
 public:
  explicit EpisodeWindow(std::size_t size = 100) : size_(size) {}
  void add(const std::vector<Episode>& episodes);

  // For a checkpoint, and back. Throws Error for what is none of its own.
  NamedTensors save() const;
  void restore(const NamedTensors& saved);

  bool full() const { return recent_.size() == size_; }
  std::int64_t total() const { return total_; }  // episodes ever added
  double mean_score() const;
  double min_score() const;
  double max_score() const;
  double mean_length() const;
  double mean_info(std::size_t i) const;  // of Batch::infos

 private:
  std::size_t size_;
  std::deque<Episode> recent_;
  std::int64_t total_ = 0;
};

}  // namespace shoal
