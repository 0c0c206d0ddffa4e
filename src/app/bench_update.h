#pragma once

#include <CLI/CLI.hpp>

#include "src/app/commands.h"

namespace shoal::app {

// `shoal bench update`: updates a second of SAC, TD3 or DDPG.
void add_bench_update(CLI::App& bench, Command& chosen);

}  // namespace shoal::app
