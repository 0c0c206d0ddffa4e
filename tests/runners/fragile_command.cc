// The `shoal` command with environments that fail: Fragile-<how>, which can be saved, and
// Fragile-<how>-unsaved, which cannot. Environment 5 fails at step 500 after its first reset.
// Those of Slow-v0 never fail, and take 50 microseconds for a step.
#include "shoal/cli/command_line.h"
#include "shoal/envs/registry.h"
#include "tests/support/fragile_env.h"

int main(int argc, char** argv) {
  using shoal::testing::Breakage;
  for (const auto& [name, how] : {std::pair{"throw", Breakage::kThrow},
                                  {"segfault", Breakage::kSegfault},
                                  {"exit", Breakage::kExit},
                                  {"exit-0", Breakage::kExitWith0},
                                  {"hang", Breakage::kHang},
                                  {"reset", Breakage::kThrowInReset},
                                  {"constructor", Breakage::kThrowInConstructor},
                                  {"first-reset", Breakage::kThrowInFirstReset},
                                  {"save", Breakage::kThrowInSave}}) {
    for (const bool saves : {true, false})
      shoal::register_env(std::string("Fragile-") + name + (saves ? "" : "-unsaved"),
                          shoal::testing::make_fragile({.how = how, .at = 500, .saves = saves}));
  }
  shoal::register_env("Slow-v0",
                      shoal::testing::make_fragile(
                          {.how = Breakage::kNone, .step = std::chrono::microseconds(50)}));
  return shoal::run_command_line(argc, argv);
}
