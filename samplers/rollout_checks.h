#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "samplers/partition.h"
#include "shoal/core/rows.h"

namespace shoal {

// Finds NaN and infinite numbers, and action masks without a legal action, in newly written rows:
// in one pass over several environments, in floating-point fields only.
class RolloutChecks {
 public:
  explicit RolloutChecks(const RolloutSpec& spec);

  // The first error found, in environment b.
  struct Finding {
    std::int64_t b;
    std::string text;
  };
  using Found = std::optional<Finding>;

  // These check one row of the given environments.
  Found observations(const Rows& rows, std::int64_t row, const Range& envs) const;
  static Found masks(const Rows& rows, std::int64_t row, const Range& envs);
  Found actions(const Rows& rows, std::int64_t row, const Range& envs) const;
  // The reward and the info "score".
  Found rewards(const Rows& rows, std::int64_t row, const Range& envs) const;
  // Everything that a step from this row to the next has written: rewards, observations and masks.
  Found step(const Rows& rows, std::int64_t row, const Range& envs) const;
  // Checks a step of b that is not in the rows.
  static Found rewards(float reward, float score, std::int64_t b);

 private:
  std::vector<std::size_t> observations_, actions_;  // indices of the floating-point fields
  std::optional<std::size_t> score_;
};

}  // namespace shoal
