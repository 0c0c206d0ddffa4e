#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "shoal/data/samples.h"

namespace shoal {

// Replaces a file as a whole: whatever happens, its folder holds either the old content or the new
// one, on disk. Throws Error if the folder cannot be written to.
void write_file(const std::filesystem::path& file, std::string_view content);
// Waits until all of it is on the disk. Throws Error if it cannot be opened or written.
void sync_file(const std::filesystem::path& file);
// Throws Error if it cannot be read.
std::string read_file(const std::filesystem::path& file);

// Tensors and counters by name. On disk: a magic word, the length of a JSON header, the header
// (names, types, shapes), the elements in the machine's byte order, and a CRC-32 of all that.
struct Checkpoint {
  Named<std::int64_t> counters;
  NamedTensors tensors;  // on the CPU after reading; see shoal/data/saved.h
};

void write_checkpoint(const std::filesystem::path& file, const Checkpoint& checkpoint);
// Throws Error if it cannot be read, is truncated, damaged, or of another kind.
Checkpoint read_checkpoint(const std::filesystem::path& file);

}  // namespace shoal
