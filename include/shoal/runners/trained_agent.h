#pragma once

#include <filesystem>
#include <string>

#include "shoal/agents/agent.h"
#include "shoal/runners/checkpoint_files.h"
#include "shoal/runners/config.h"

namespace shoal {

// A trained agent is a run folder, one of its checkpoints, a .safetensors file of `shoal export`,
// or "zoo:NAME".

// Returns the settings it was trained with; those of a checkpoint are in its folder. Throws Error
// if there are none.
Config trained_config(const std::filesystem::path& trained);

// Copies its parameters to an agent with the same networks, which may be on any device. Of a run
// folder they are those of the file `checkpoint` in it. keep_exploration: the parameters by which
// the agent explores stay as they are, so that it may have another number of environments. Throws
// Error if the parameters cannot be read or do not fit.
void restore_trained(const std::filesystem::path& trained, Agent& agent,
                     const std::string& checkpoint = kCheckpointFile,
                     bool keep_exploration = false);

// Throws Error if there is no such run or file. Reads no weights.
void require_trained(const std::filesystem::path& trained);

}  // namespace shoal
