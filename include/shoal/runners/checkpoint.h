#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "shoal/data/samples.h"
#include "shoal/runners/files.h"

namespace shoal {

class Agent;

// Tensors and counters by name. On disk: a magic word, the length of a JSON header, the header
// (names, types, shapes), the elements in the machine's byte order, and a CRC-32 of all that.
struct Checkpoint {
  Named<std::int64_t> counters;
  NamedTensors tensors;  // on the CPU after reading; see shoal/data/saved.h
  // Config::algo of the run; empty in checkpoints of versions that did not keep it.
  std::string algo = {};
};

// Throws as FileReplacement does.
void write_checkpoint(const std::filesystem::path& file, const Checkpoint& checkpoint);
// Throws Error if it cannot be read, is truncated, damaged, or of another kind. Nothing is
// allocated for a tensor, and nothing is read of it, before the sizes in the header are those of
// the file.
Checkpoint read_checkpoint(const std::filesystem::path& file);

// Gives the agent its parameters, "agent/NAME", of a checkpoint that was read from `file`. Throws
// Error, with the tensor, what was found and what was expected, unless the names, types and shapes
// are exactly the agent's, and all numbers finite.
void restore_agent(const Checkpoint& from, const std::filesystem::path& file, Agent& agent);

}  // namespace shoal
