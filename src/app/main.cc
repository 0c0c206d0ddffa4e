#include <cstdio>
#include <cstdlib>

#include "src/app/commands.h"

int main(int argc, char** argv) {
  const int status = shoal::app::run(argc, argv);
  std::fflush(nullptr);
  std::_Exit(status);  // LibTorch needs 80 ms to take its tables apart, and nothing of ours is left
                       // to destroy
}
