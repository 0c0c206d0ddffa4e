#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "shoal/data/samples.h"
#include "shoal/runners/files.h"

namespace shoal {

class Agent;

// Tensors and counters by name. On disk: a magic word, the length of a JSON header, the header
// (names, types, shapes), the elements in the machine's byte order, and a CRC-32 of all of these.
struct Checkpoint {
  Named<std::int64_t> counters;
  NamedTensors tensors;  // on the CPU after reading; see shoal/data/saved.h
  // Config::algo of the run; empty in checkpoints of versions that did not store it.
  std::string algo = {};
};

// Throws as FileReplacement does.
void write_checkpoint(const std::filesystem::path& file, const Checkpoint& checkpoint);
// Throws Error if the file cannot be read, is truncated or damaged, or is not a checkpoint. No
// tensor is allocated or read before the sizes in the header agree with the size of the file.
Checkpoint read_checkpoint(const std::filesystem::path& file);

// Its counters only. The checksum of the file is not checked.
Named<std::int64_t> read_counters(const std::filesystem::path& file);

// Copies the parameters "agent/NAME" of a checkpoint, which was read from `file`, to the agent.
// Throws Error, with the tensor, the found and the expected value, unless names, types and shapes
// are exactly those of the agent and all numbers are finite.
void restore_agent(const Checkpoint& from, const std::filesystem::path& file, Agent& agent);

}  // namespace shoal
