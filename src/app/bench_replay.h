#pragma once

#include <CLI/CLI.hpp>

#include "src/app/commands.h"

namespace shoal::app {

// `shoal bench replay`: batches a second out of a replay that is full.
void add_bench_replay(CLI::App& bench, Command& chosen);

}  // namespace shoal::app
