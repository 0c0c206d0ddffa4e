#include "src/sync/ring.h"

#include <fmt/format.h>

#include "shoal/core/rank_exchange.h"

namespace shoal {

void Ring::fail(int place, const std::string& what) const {
  throw RankError(fmt::format("process {} of {} {}", place, count_, what), place);
}

void Ring::fail_for_lateness(int place) const {
  fail(place, fmt::format("has not come for {:.1f} s; is it stopped, or slower by far? If that is "
                          "no hang, raise the timeout",
                          std::chrono::duration<double>(timeout_).count()));
}

void Ring::fail_for_difference(const Act& theirs, const Act& own) const {
  fail(place_before(),
       fmt::format("is at its act {} (kind {}, {} bytes), this one at its act {} (kind {}, {} "
                   "bytes); all must do the same",
                   theirs.number, theirs.kind, theirs.size, own.number, own.kind, own.size));
}

}  // namespace shoal
