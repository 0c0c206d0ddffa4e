#pragma once

#include <array>
#include <filesystem>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "shoal/distributed/job_place.h"
#include "shoal/runners/checkpoint_files.h"
#include "shoal/runners/config.h"

namespace shoal::cli {

// Flags that abbreviate a setting.
struct Shorthand {
  const char *flag, *key, *doc;
};
inline constexpr std::array<Shorthand, 10> kShorthands = {{
    {"--env", "env.id", "Environment; without a preset, the settings suit its kind of task"},
    {"--algo", "algo", "Learning algorithm (see shoal list algos)"},
    {"--steps", "steps", "Total agent steps; the schedules of a new run are as long"},
    {"--seed", "seed", "Seed of all random numbers"},
    {"--sampler", "sampler.kind", "Sampler: auto, serial, parallel-cpu or parallel-gpu"},
    {"--workers", "sampler.workers", "Number of worker processes that step environments"},
    {"--envs", "sampler.envs", "Number of environments"},
    {"--device", "device", "Device: cpu, cuda or cuda:N"},
    {"--threads", "threads", "Threads of tensor operations; 0: one per core"},
    {"--ranks", "ranks", "Number of processes of data-parallel training"},
}};

// Whether environments are made by this setting.
inline bool is_of_env(std::string_view key) {
  return key.starts_with("env.") || key.starts_with("atari.") || key.starts_with("gymnasium.");
}

struct TrainFlags {
  std::string source, out, resume, init_from, cores, pin;
  std::array<std::string, kShorthands.size()> values;
  std::vector<std::string> settings;
  bool quiet = false;
};

// The settings that the user's file changes; none if `source` is a preset or empty.
// read: the settings of the file, also with changes that were made since.
std::set<std::string> keys_of_file(const std::string& source, const Config& read);

std::set<std::string> keys_of(const Settings& changes);

// Lines for the user: which of the settings that were given change nothing, and whether the run is
// too short to learn. Empty if there is nothing to say.
std::string without_effect(const Config& config, const std::set<std::string>& keys);

// The settings for an environment without a preset, which is made to see what kind of task it is.
Config without_preset(const Settings& changes);

struct Configured {
  Config config;
  std::string notes;  // lines for the user
};

// The run folder and the checkpoint that `--resume` selects; it takes either.
struct Resumed {
  std::filesystem::path folder;
  std::string checkpoint = kCheckpointFile;
};
Resumed resumed_run(const std::filesystem::path& given);

// Fills in what `asked` leaves open (schedules, automatic sampler) from the settings with which the
// run began.
Config as_begun(Config asked, const Config& begun);

// The settings of the run that the flags begin or resume. Throws Error for mistakes in them.
Configured configure(const TrainFlags& flags, const JobPlace& job);

}  // namespace shoal::cli
