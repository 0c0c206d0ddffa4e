#include "shoal/runners/launch.h"
#include "src/app/commands.h"

int main(int argc, char** argv) {
  shoal::launch(argv);
  return shoal::app::run(argc, argv);
}
