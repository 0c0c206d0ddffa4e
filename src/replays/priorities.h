#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "shoal/core/rng.h"
#include "src/replays/saved_replay.h"
#include "src/replays/sum_tree.h"

namespace shoal {

// Draws cells of a ring with probability proportional to a power of their priorities (Schaul et
// al., arXiv 1511.05952). The content of a cell has a permanent name: names count up, and the cell
// is the name modulo the number of cells.
class Priorities {
 public:
  // All priorities are 0. alpha: the power.
  Priorities(std::int64_t cells, double alpha);
  static std::size_t bytes(std::int64_t cells) {
    return static_cast<std::size_t>(cells) * 8 * 8 / 7;
  }

  // Sets cells from `first` on: to the largest priority so far if the cell can be drawn, else to 0.
  void offer(std::int64_t first, std::span<const bool> can_be_drawn);

  // Stratified: the range of priorities is cut into equal parts, and one cell is drawn from each.
  // probability: of each drawn cell; of the same size as cells.
  void draw(std::span<std::int64_t> cells, Rng& rng, std::span<double> probability);

  // names: [N] int64; priority: [N] float32, above 0. Names outside [kept.first, kept.second) have
  // been overwritten and are skipped. Throws Error for other shapes and numbers.
  void update(const at::Tensor& names, const at::Tensor& priority,
              std::pair<std::int64_t, std::int64_t> kept);

  // priority^alpha of each cell, [cells] float64; a view, valid until the next change.
  at::Tensor powers() const;
  double largest() const { return largest_; }
  ReplaySettings settings() const { return {{"alpha", alpha_}}; }
  // powers: as from powers(), contiguous. Throws Error for another number of cells.
  void restore(const at::Tensor& powers, double largest);

 private:
  double alpha_, largest_ = 1;
  SumTree tree_;  // of powers()
  std::vector<std::int64_t> cells_;
  std::vector<double> values_;
};

// Throws Error unless it can be a power of priorities: 0 to 1.
void require_alpha(double alpha);

// Importance weights for these probabilities: probability^-beta, divided by least^-beta.
void importance_weights(std::span<const double> probability, double least, double beta,
                        float* weight);

}  // namespace shoal
