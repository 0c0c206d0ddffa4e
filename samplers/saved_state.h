#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "samplers/mailbox.h"
#include "samplers/partition.h"
#include "samplers/shared_rollout.h"
#include "shoal/data/samples.h"
#include "shoal/samplers/sampler.h"

// Names and shapes of the tensors that Sampler::save() returns:
//   rows/<kind>/<name>  [history + 1, B, ...]  the first rows of the next rollout
//   state/<name>        [B, ...]               of the agent
//   env/<b>             [bytes]                see Collector::save()
//   statistics          [B, bytes]             Env::statistics(), if environments have any
//   episode_numbers     [B]
//   clock               [2]                    first tick and version of the next rollout
namespace shoal {

// Rows 0..history of the rollout, and (restore_rows()) the agent's state, in the arena.
// restore_rows() throws Error if a tensor is missing, or has another type or shape.
void save_rows(const SharedRollout& shared, NamedTensors& to);
void restore_rows(const SharedRollout& shared, const NamedTensors& from);

// Env::statistics() of the environments of several rows, in order. If none were saved, the
// environments keep theirs.
void save_statistics(const std::vector<const SharedRollout*>& rows, NamedTensors& to);
void restore_statistics(const std::vector<const SharedRollout*>& rows, const NamedTensors& from);

// Converts the result of Collector::save() for some environments to tensors "env/<b>", where b
// counts from SamplerOptions::first_env. env_states() converts back: element b is environment b.
void add_env_states(const std::vector<std::byte>& message, const Range& envs,
                    std::int64_t first_env, NamedTensors& to);
// Does so for all workers of a parallel sampler. Each worker has slot group * workers + worker of
// the mailbox.
void take_env_states(const Mailbox& mailbox, const SamplerOptions& options, NamedTensors& to);
std::vector<std::span<const std::byte>> env_states(const NamedTensors& from, std::int64_t first_env,
                                                   std::int64_t envs);

std::int64_t first_tick(const NamedTensors& from);

}  // namespace shoal
