#pragma once

#include <CLI/CLI.hpp>

#include "src/app/commands.h"

namespace shoal::app {

// `shoal bench ring`: windows a second from one process to another.
void add_bench_ring(CLI::App& bench, Command& chosen);

}  // namespace shoal::app
