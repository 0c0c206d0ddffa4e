#pragma once

#include <CLI/CLI.hpp>

#include "cli/commands.h"

namespace shoal::cli {

// How long an agent takes to act for a batch of environments.
void add_bench_act(CLI::App& bench, Command& chosen);
// Batches a second out of a replay that is full.
void add_bench_replay(CLI::App& bench, Command& chosen);
// Rollouts a second from one process to another.
void add_bench_ring(CLI::App& bench, Command& chosen);
// Requests and gradients a second that a server answers on the same machine.
void add_bench_service(CLI::App& bench, Command& chosen);
// How long processes take to add up their gradients.
void add_bench_sync(CLI::App& bench, Command& chosen);
// Updates a second of SAC, TD3 or DDPG.
void add_bench_update(CLI::App& bench, Command& chosen);

}  // namespace shoal::cli
