#pragma once

namespace shoal {

// The first line of main() should be launch(argv). It tells malloc to keep freed memory, as the
// tensors of a step are allocated again at once. Libraries read some settings when they are loaded,
// before main(): launch() sets GOMP_SPINCOUNT=20000 and re-executes the program once. Idle OpenMP
// threads then spin for about 10 microseconds instead of milliseconds, on cores that the workers
// need. A GOMP_SPINCOUNT or OMP_WAIT_POLICY of the user is not changed.
//
// Loading LibTorch twice costs 0.3 s. With threads = 1, for a program with one thread of tensor
// operations, launch() does not re-execute.
void launch(char** argv, int threads = 0);

}  // namespace shoal
