#include "src/distributed/ring.h"

#include <fmt/format.h>

#include "shoal/ipc/rank_exchange.h"

namespace shoal {
namespace {

std::string text_of(const Ring::Act& act) {
  return fmt::format("{} ({} bytes, call {})", act.kind == Ring::kSum ? "sums" : "gathers",
                     act.size, act.number);
}

}  // namespace

void Ring::fail(int place, const std::string& what) const {
  throw RankError(fmt::format("process {} of {} {}", place, count_, what), place);
}

void Ring::fail_for_lateness(int place) const {
  fail(place, fmt::format("did not respond for {:.1f} s; it may be stopped, or much slower than "
                          "the others: in that case raise the timeout",
                          std::chrono::duration<double>(timeout_).count()));
}

void Ring::fail_for_difference(const Act& theirs, const Act& own) const {
  fail(place_before(),
       fmt::format("{}, this one {}; all must make the same calls", text_of(theirs), text_of(own)));
}

}  // namespace shoal
