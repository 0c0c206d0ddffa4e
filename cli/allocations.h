#pragma once

#include <cstdint>

namespace shoal::cli {

// Number of calls of operator new by this thread.
std::int64_t allocations();

}  // namespace shoal::cli
