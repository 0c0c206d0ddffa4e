#pragma once

#include <cstdint>

namespace shoal::app {

// How often this thread has asked for memory through operator new.
std::int64_t allocations();

}  // namespace shoal::app
