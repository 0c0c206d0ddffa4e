#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "shoal/data/samples.h"

namespace shoal {

// Distribution of some numbers; all NaN if there are none. `std` is the population standard
// deviation (divided by N).
struct Spread {
  double mean, std, min, median, max;
};

// Statistics of the last `size` finished episodes; NaN before the first episode ends.
class EpisodeWindow {
 public:
  explicit EpisodeWindow(std::size_t size = 100) : size_(size) {}
  void add(const std::vector<Episode>& episodes);

  // For checkpoints. restore() throws Error for tensors that save() cannot have returned.
  NamedTensors save() const;
  void restore(const NamedTensors& saved);
  // The episodes in the result of save().
  static std::vector<Episode> episodes_of(const NamedTensors& saved);

  bool full() const { return recent_.size() == size_; }
  std::int64_t total() const { return total_; }  // number of episodes added so far
  double mean_score() const;
  Spread scores() const;
  Spread lengths() const;
  Spread discounted_rewards() const;
  double mean_nonzero_rewards() const;
  double mean_info(std::size_t i) const;  // index into Batch::infos

 private:
  std::size_t size_;
  std::deque<Episode> recent_;
  std::int64_t total_ = 0;
};

}  // namespace shoal
