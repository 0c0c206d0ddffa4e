#include "benchmarks/benchmarks.h"

int main(int argc, char** argv) {
  using namespace shoal::cli;
  CLI::App app("Benchmarks of the components of Shoal.", "shoal_bench");
  Command chosen;
  add_bench_act(app, chosen);
  add_bench_convolution(app, chosen);
  add_bench_emulator(app, chosen);
  add_bench_replay(app, chosen);
  add_bench_ring(app, chosen);
  add_bench_service(app, chosen);
  add_bench_sync(app, chosen);
  add_bench_update(app, chosen);
  return run_app(app, chosen, argc, argv);
}
