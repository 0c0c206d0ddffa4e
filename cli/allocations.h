#pragma once

#include <cstdint>

namespace shoal::cli {

// How often this thread has asked for memory through operator new.
std::int64_t allocations();

}  // namespace shoal::cli
