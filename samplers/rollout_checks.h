#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "samplers/partition.h"
#include "shoal/core/rows.h"

namespace shoal {

// Looks for numbers that are NaN or infinite, and for action masks without a legal action, in rows
// that were just written: in one pass over those of several environments, of floating-point fields
// alone.
class RolloutChecks {
 public:
  explicit RolloutChecks(const RolloutSpec& spec);

  // The first one, of environment b.
  struct Finding {
    std::int64_t b;
    std::string text;
  };
  using Found = std::optional<Finding>;

  // Of these environments, in one row.
  Found observations(const Rows& rows, std::int64_t row, const Range& envs) const;
  static Found masks(const Rows& rows, std::int64_t row, const Range& envs);
  Found actions(const Rows& rows, std::int64_t row, const Range& envs) const;
  // The reward and the info "score".
  Found rewards(const Rows& rows, std::int64_t row, const Range& envs) const;
  // All that a step from this row to the next has written: rewards, observations and masks.
  Found step(const Rows& rows, std::int64_t row, const Range& envs) const;
  // Of one step of b that is in no row.
  static Found rewards(float reward, float score, std::int64_t b);

 private:
  std::vector<std::size_t> observations_, actions_;  // which of the fields have such numbers
  std::optional<std::size_t> score_;
};

}  // namespace shoal
