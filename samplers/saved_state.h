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

// The names and shapes of what Sampler::save() gives:
//   rows/<kind>/<name>  [history + 1, B, ...]  what the next rollout begins with
//   state/<name>        [B, ...]               of the agent
//   env/<b>             [bytes]                see Collector::save()
//   statistics          [B, bytes]            Env::statistics(), if environments have any
//   episode_numbers     [B]
//   clock               [2]                    first tick and number of the next rollout
namespace shoal {

// The rows 0..history of the rollout and the agent's state, as they lie in the arena. restore()
// throws Error if a tensor is missing or of another type or shape.
void save_rows(const SharedRollout& shared, NamedTensors& to);
void restore_rows(const SharedRollout& shared, const NamedTensors& from);

// Env::statistics() of the environments of several rows, one after the other. Environments that
// were saved without any keep those they have.
void save_statistics(const std::vector<const SharedRollout*>& rows, NamedTensors& to);
void restore_statistics(const std::vector<const SharedRollout*>& rows, const NamedTensors& from);

// What Collector::save() gives for some environments, as tensors "env/<b>", where b counts from
// SamplerOptions::first_env, and back: place b.
void add_env_states(const std::vector<std::byte>& message, const Range& envs,
                    std::int64_t first_env, NamedTensors& to);
// Of all workers of a parallel sampler; slot group * workers + worker of the mailbox is its own.
void take_env_states(const Mailbox& mailbox, const SamplerOptions& options, NamedTensors& to);
std::vector<std::span<const std::byte>> env_states(const NamedTensors& from, std::int64_t first_env,
                                                   std::int64_t envs);

std::int64_t first_tick(const NamedTensors& from);

}  // namespace shoal
