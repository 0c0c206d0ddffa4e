#pragma once

#include <CLI/CLI.hpp>

#include "src/app/commands.h"

namespace shoal::app {

// `shoal bench act`: how long an agent takes to act for a batch of environments.
void add_bench_act(CLI::App& bench, Command& chosen);

}  // namespace shoal::app
