#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string_view>

#include "shoal/cli/command_line.h"

namespace {

std::terminate_handler default_handler;

[[noreturn]] void fail(std::string_view message, int status) {
  [[maybe_unused]] const auto written = write(STDERR_FILENO, message.data(), message.size());
  _exit(status);
}

[[noreturn]] void fail_while_loading() {
  fail(
      "error: LibTorch could not be loaded, probably because memory is limited (`ulimit -v`): "
      "allow at least 1 GB\n",
      1);
}

// The constructors of LibTorch's static objects allocate memory before main() and end in
// std::terminate if they cannot. Those of MKL fail without a working directory. Functions in
// .preinit_array run before them.
void before_libraries() {
  default_handler = std::set_terminate(fail_while_loading);
  static char folder[PATH_MAX];
  if (syscall(SYS_getcwd, folder, sizeof(folder)) < 0 && errno == ENOENT)
    fail("shoal: the working directory was removed; change to another one\n", 2);
}
[[gnu::section(".preinit_array"), gnu::used]] void (*const preinit)() = before_libraries;

}  // namespace

int main(int argc, char** argv) {
  std::set_terminate(default_handler);
  const int status = shoal::run_command_line(argc, argv);
  std::fflush(nullptr);
  std::_Exit(
      status);  // LibTorch's static destructors take 80 ms, and Shoal has nothing left to destroy
}
