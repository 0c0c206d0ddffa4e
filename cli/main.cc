#include <cstdio>
#include <cstdlib>

#include "shoal/cli/command_line.h"

int main(int argc, char** argv) {
  const int status = shoal::run_command_line(argc, argv);
  std::fflush(nullptr);
  std::_Exit(status);  // LibTorch needs 80 ms to take its tables apart, and nothing of ours is left
                       // to destroy
}
