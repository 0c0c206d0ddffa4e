#pragma once

#include <CLI/CLI.hpp>

#include "src/app/commands.h"

namespace shoal::app {

// `shoal bench sync`: how long processes take to add up their gradients.
void add_bench_sync(CLI::App& bench, Command& chosen);

}  // namespace shoal::app
