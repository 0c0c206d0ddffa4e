#pragma once

#include "shoal/models/acting_network.h"

namespace shoal::cli {

// Peak rates of this CPU, measured by these calls.

// Multiplications and additions per second of `threads` threads in registers, with the fastest
// instructions for this precision (float32 instead of bf16 if the CPU multiplies float32 faster).
double peak_operations(int threads, Precision precision);
const char* instructions(Precision precision);

// Bytes per second that one thread copies in main memory.
double peak_copying();

}  // namespace shoal::cli
