#pragma once

#include <cstdint>
#include <filesystem>

#include "shoal/data/samples.h"
#include "shoal/runners/files.h"

namespace shoal {

// Tensors and counters by name. On disk: a magic word, the length of a JSON header, the header
// (names, types, shapes), the elements in the machine's byte order, and a CRC-32 of all that.
struct Checkpoint {
  Named<std::int64_t> counters;
  NamedTensors tensors;  // on the CPU after reading; see shoal/data/saved.h
};

// Throws as FileReplacement does.
void write_checkpoint(const std::filesystem::path& file, const Checkpoint& checkpoint);
// Throws Error if it cannot be read, is truncated, damaged, or of another kind. Nothing is
// allocated for a tensor, and nothing is read of it, before the sizes in the header are those of
// the file.
Checkpoint read_checkpoint(const std::filesystem::path& file);

}  // namespace shoal
