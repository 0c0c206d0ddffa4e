#pragma once

#include <CLI/CLI.hpp>

#include "cli/commands.h"

namespace shoal::cli {

// Time of acting for a batch of environments.
void add_bench_act(CLI::App& bench, Command& chosen);
// Speed of convolutions in training, and of LibTorch's.
void add_bench_convolution(CLI::App& bench, Command& chosen);
// Frames per second of the Atari emulator, and of ALE as it is.
void add_bench_emulator(CLI::App& bench, Command& chosen);
// Batches per second from a full replay.
void add_bench_replay(CLI::App& bench, Command& chosen);
// Rollouts per second from one process to another.
void add_bench_ring(CLI::App& bench, Command& chosen);
// Requests and gradients per second that a server handles on the same machine.
void add_bench_service(CLI::App& bench, Command& chosen);
// Time of an all-reduce of gradients between processes.
void add_bench_sync(CLI::App& bench, Command& chosen);
// Updates per second of SAC, TD3 or DDPG.
void add_bench_update(CLI::App& bench, Command& chosen);

}  // namespace shoal::cli
