#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

#include "shoal/runners/log.h"

namespace shoal {

// A file of scalars for TensorBoard in `folder`: records of the protocol buffer `Event`, each
// preceded by its length, with checksums (CRC-32C) of both. The numbers are in the groups rollout/,
// train/, time/ and eval/. settings: a text that TensorBoard shows beside them. from_steps: the
// step from which a resumed run continues; TensorBoard then hides later events of earlier files; 0:
// a new run. Throws Error if the file cannot be created.
std::unique_ptr<LogSink> make_tensorboard(const std::filesystem::path& folder,
                                          std::int64_t from_steps = 0,
                                          const std::string& settings = "");

}  // namespace shoal
