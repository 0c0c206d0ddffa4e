#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>

#include "shoal/runners/log.h"

namespace shoal {

// A file of scalars that TensorBoard reads, in `folder`: records of the protocol buffer `Event`,
// each behind its length, with checksums (CRC-32C) of both. from_steps: where a resumed run goes
// on; what an earlier file says beyond it is hidden; 0: a new run. Throws Error if the file cannot
// be made.
std::unique_ptr<LogSink> make_tensorboard(const std::filesystem::path& folder,
                                          std::int64_t from_steps = 0);

}  // namespace shoal
