#pragma once

namespace shoal {

// The whole `shoal` command as a function, with everything that was registered before
// (register_env, register_model, register_algo), so that a program of yours is
//
//   int main(int argc, char** argv) {
//     shoal::register_env("Catch-v0", make_catch);
//     return shoal::run_command_line(argc, argv);
//   }
//
// Parses, runs, and turns every exception into one line on stderr and an exit status: 0 success, 2
// a user's mistake, 1 a failure while running, 128 + the number of a signal; `shoal verify` has 3,
// too. Call it from the main thread, before any other is started.
int run_command_line(int argc, char** argv);

}  // namespace shoal
