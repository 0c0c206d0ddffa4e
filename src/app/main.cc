#include "src/app/commands.h"

int main(int argc, char** argv) { return shoal::app::run(argc, argv); }
