#pragma once

namespace shoal {

// The first line of main(): launch(argv). Some settings are read by libraries when they are loaded,
// before main(): this sets those that were left open and starts the program again, once. Today that
// is GOMP_SPINCOUNT=20000: idle OpenMP threads then spin for some 10 microseconds instead of
// milliseconds, on cores that the workers need. A user's own GOMP_SPINCOUNT or OMP_WAIT_POLICY is
// left alone.
//
// Loading LibTorch twice costs 0.3 s. A program that knows that it will use one thread of tensor
// arithmetic says so: then there is nothing to set.
void launch(char** argv, int threads = 0);

}  // namespace shoal
