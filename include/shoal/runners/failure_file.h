#pragma once

#include <filesystem>

#include "shoal/runners/config.h"
#include "shoal/samplers/env_failure.h"

namespace shoal {

// A run folder keeps the latest five failures of environments as files failure-<step>-<env>.rewind,
// which `shoal rewind` repeats.

// For SamplerOptions::on_failure: writes failures to the folder of a run. Also writes the run's
// settings, which `shoal rewind` needs, unless they exist. Throws as FileReplacement does.
FailureHandler keep_failures(const std::filesystem::path& run, const Config& config);
// Returns the file. Throws as FileReplacement does.
std::filesystem::path write_failure(const std::filesystem::path& folder, const EnvFailure& failure);
// Throws Error if the file cannot be used.
EnvFailure read_failure(const std::filesystem::path& file);
// The latest failure of a run. Throws Error if there is none.
std::filesystem::path latest_failure(const std::filesystem::path& run);
void forget_failures(const std::filesystem::path& run);

}  // namespace shoal
