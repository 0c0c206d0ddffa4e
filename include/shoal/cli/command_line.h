#pragma once

namespace shoal {

// The whole `shoal` command as a function. It knows everything that was registered before the call
// (register_env, register_model, register_algo), so a program of your own is
//
//   int main(int argc, char** argv) {
//     shoal::register_env("Catch-v0", make_catch);
//     return shoal::run_command_line(argc, argv);
//   }
//
// Parses and runs the command, and turns every exception into one line on stderr and an exit
// status: 0 success, 1 a failure while running, 2 a mistake of the user, 128 + the number of a
// signal; `shoal verify` also returns 3. Call it from the main thread before any other thread
// starts.
int run_command_line(int argc, char** argv);

}  // namespace shoal
