#pragma once

#include <filesystem>
#include <string>

#include "shoal/agents/agent.h"
#include "shoal/runners/checkpoint_files.h"
#include "shoal/runners/config.h"

namespace shoal {

// A trained agent is a run folder, one of its checkpoints, a .safetensors file of `shoal export`,
// or "zoo:NAME".

// Its settings; of a checkpoint, those in its folder. Throws Error if there are none.
Config trained_config(const std::filesystem::path& trained);

// Copies its parameters, of a run those of one of its checkpoints, to an agent with the same
// networks, which may be on any device. keep_exploration: except those by which it explores, so
// that the number of environments may differ. Throws Error if they cannot be read or do not fit.
void restore_trained(const std::filesystem::path& trained, Agent& agent,
                     const std::string& checkpoint = kCheckpointFile,
                     bool keep_exploration = false);

// Throws Error, with how to begin, unless there is something to restore. Reads no weights.
void require_trained(const std::filesystem::path& trained);

}  // namespace shoal
