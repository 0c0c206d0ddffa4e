#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "shoal/core/rng.h"
#include "shoal/replays/sum_tree.h"

namespace shoal {

// Draws cells of a ring in proportion to a power of their priorities (Schaul et al., arXiv
// 1511.05952). What lies in a cell has a name that it keeps: names go on counting, and their
// remainders by the number of cells are the cells.
class Priorities {
 public:
  // All are 0. alpha: the power.
  Priorities(std::int64_t cells, double alpha);
  static std::size_t bytes(std::int64_t cells) {
    return static_cast<std::size_t>(cells) * 8 * 8 / 7;
  }

  // From `first` on: a cell that can be drawn gets the largest priority so far, another one 0.
  void offer(std::int64_t first, std::span<const bool> can_be_drawn);

  // The range of priorities is cut into equal parts and one cell is drawn from each. probability:
  // as many, of each of them.
  void draw(std::span<std::int64_t> cells, Rng& rng, std::span<double> probability);

  // names: [N] int64; priority: [N] float32, above 0. Those outside [kept.first, kept.second) have
  // been overwritten and are left out. Throws Error for other shapes and numbers.
  void update(const at::Tensor& names, const at::Tensor& priority,
              std::pair<std::int64_t, std::int64_t> kept);

  // [cells] float64, what each is drawn in proportion to; a view that ends with the next change.
  at::Tensor powers() const;
  double largest() const { return largest_; }
  // Goes on from these. powers: contiguous.
  void restore(const at::Tensor& powers, double largest);

 private:
  double alpha_, largest_ = 1;
  SumTree tree_;  // of the powers
  std::vector<std::int64_t> cells_;
  std::vector<double> values_;
};

// Of steps that were drawn with these probabilities: probability^-beta, divided by that of the
// least.
void importance_weights(std::span<const double> probability, double least, double beta,
                        float* weight);

}  // namespace shoal
