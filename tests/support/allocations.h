#pragma once

namespace shoal {

// How often this program, the libraries it loads included, has asked for memory.
long allocations();

}  // namespace shoal
