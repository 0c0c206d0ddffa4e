#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "shoal/data/samples.h"

namespace shoal {

// How numbers are spread; all NaN if there are none. The deviation is that of these numbers
// (divided by N).
struct Spread {
  double mean, std, min, median, max;
};

// Statistics of the last `size` finished episodes; NaN before the first one.
class EpisodeWindow {
 public:
  explicit EpisodeWindow(std::size_t size = 100) : size_(size) {}
  void add(const std::vector<Episode>& episodes);

  // For a checkpoint, and back. Throws Error for what is none of its own.
  NamedTensors save() const;
  void restore(const NamedTensors& saved);
  // Those that were saved.
  static std::vector<Episode> episodes_of(const NamedTensors& saved);

  bool full() const { return recent_.size() == size_; }
  std::int64_t total() const { return total_; }  // episodes ever added
  double mean_score() const;
  Spread scores() const;
  Spread lengths() const;
  Spread discounted_rewards() const;
  double mean_nonzero_rewards() const;
  double mean_info(std::size_t i) const;  // of Batch::infos

 private:
  std::size_t size_;
  std::deque<Episode> recent_;
  std::int64_t total_ = 0;
};

}  // namespace shoal
