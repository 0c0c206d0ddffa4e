#pragma once

namespace shoal {

// Number of allocations of this program, including the libraries it loads.
long allocations();

}  // namespace shoal
