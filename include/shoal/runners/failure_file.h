#pragma once

#include <filesystem>

#include "shoal/runners/config.h"
#include "shoal/samplers/env_failure.h"

namespace shoal {

// The failures of environments that a run folder keeps: files failure-<step>-<env>.rewind, the
// latest five, which `shoal rewind` repeats.

// For SamplerOptions::on_failure: writes failures into the folder of a run, and its settings, which
// `shoal rewind` needs, if they are not there yet. Throws as FileReplacement does.
FailureHandler keep_failures(const std::filesystem::path& run, const Config& config);
// Throws as FileReplacement does. Returns the file.
std::filesystem::path write_failure(const std::filesystem::path& folder, const EnvFailure& failure);
// Throws Error if it cannot be used.
EnvFailure read_failure(const std::filesystem::path& file);
// The latest of a run. Throws Error if there is none.
std::filesystem::path latest_failure(const std::filesystem::path& run);
void forget_failures(const std::filesystem::path& run);

}  // namespace shoal
