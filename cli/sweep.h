#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "shoal/runners/config.h"

namespace shoal::cli {

// One training run of a sweep.
struct SweepRun {
  std::string variant;
  std::string base;              // preset or file; empty: the defaults of env.id
  Settings settings;             // of the file, for this run
  Config config;                 // the resulting configuration, with the seed
  std::filesystem::path folder;  // <out>/<variant>-<seed>
};

// The rungs of successive halving: trials take min_steps, the best 1/factor of them take factor
// times as many, and so on up to max_steps.
struct Halving {
  std::int64_t min_steps = 0, max_steps = 0;
  int factor = 3;
};

// A sweep trains each variant with each seed:
//
//   base = "cartpole-ppo"   # a preset, or the path of a file; without it, the settings for env.id
//   seeds = [1, 2, 3]       # or a range: "1-3"; "1" is one seed
//   cores = 1               # per run
//   gpus = 0                # number of GPUs, assigned to runs in turn; 0: their own device
//   [all]                   # settings of every run
//   steps = 200000
//   [variant.wide]          # settings of one variant; without variants there is one, named as base
//   model.hidden = [256, 256]
//   [variant.dqn]
//   base = "cartpole-dqn"   # instead of the sweep's
//   [grid]                  # every combination of these values, for each variant
//   ppo.clip = [0.1, 0.2]
//   [random]                # draws, for each variant and combination
//   draws = 20
//   seed = 1
//   ppo.epochs = [3, 10]                                           # one of these
//   ppo.learning_rate = {low = 1e-4, high = 1e-2, log = true}      # within a range
//   [tune]                  # for `shoal tune` only
//   min_steps = 10000
//   max_steps = 270000
//   factor = 3
//
// A range gives numbers of three significant digits, of more if it is narrow, or whole numbers if
// both ends are whole. The settings of a combination are in the name of the variant. More draws
// keep the first ones; equal draws are one.
struct Sweep {
  int cores = 1, gpus = 0;
  std::optional<Halving> halving = {};
  std::vector<SweepRun> runs;  // all variants with the first seed, then with the next
};

// Throws Error for a file that cannot be read or is invalid, for settings that a run of `base`
// rejects, and for more cores or GPUs than the machine has.
Sweep read_sweep(const std::filesystem::path& file, const std::filesystem::path& out);
// Makes the environment and the agent of every variant. Throws Error if that fails, for example
// because the algorithm cannot learn the task.
void check_tasks(const Sweep& sweep);
// The lines of without_effect(), each once, behind the name of the first variant to which it
// applies.
std::string notes_of(const Sweep& sweep);
// Parses the text of such a file; `file` appears in messages.
Sweep parse_sweep(const std::string& text, const std::string& file,
                  const std::filesystem::path& out);

}  // namespace shoal::cli
