#pragma once

#include "shoal/models/acting_network.h"

namespace shoal::cli {

// What this CPU can do at most, measured now.

// Multiplications and additions a second that so many threads do in registers, with the fastest
// instructions for this precision (bf16: float32 where there are none).
double peak_operations(int threads, Precision precision);
const char* instructions(Precision precision);

// Bytes a second that one thread copies from memory to memory.
double peak_copying();

}  // namespace shoal::cli
