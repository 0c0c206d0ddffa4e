#include <cstdio>
#include <cstdlib>

#include "shoal/cli/command_line.h"

int main(int argc, char** argv) {
  const int status = shoal::run_command_line(argc, argv);
  std::fflush(nullptr);
  std::_Exit(
      status);  // LibTorch's static destructors take 80 ms, and Shoal has nothing left to destroy
}
