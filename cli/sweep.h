#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "shoal/runners/config.h"

namespace shoal::cli {

using SweepSettings = std::vector<std::pair<std::string, std::string>>;  // as --set takes them

// What one process trains.
struct SweepRun {
  std::string variant;
  SweepSettings settings;        // that the file says about it
  Config config;                 // what they come to, with its seed
  std::filesystem::path folder;  // <out>/<variant>-<seed>
};

// Variants of one training, each with every seed:
//
//   base = "cartpole-ppo"   # a preset, or the path of a file
//   seeds = [1, 2, 3]
//   cores = 1               # of each run
//   gpus = 0                # that runs take turns on; 0: the device that `base` says
//   [all]                   # settings of every run
//   steps = 200000
//   [variant.wide]          # and of some; without any there is one variant, called as `base` is
//   model.hidden = [256, 256]
struct Sweep {
  std::string base;
  int cores = 1, gpus = 0;
  std::vector<SweepRun> runs;  // variant by variant for the first seed, then for the next
};

// Throws Error for a file that cannot be read or makes no sense, for settings that a run of `base`
// refuses, and for more cores than there are.
Sweep read_sweep(const std::filesystem::path& file, const std::filesystem::path& out);
// The sweep in the text of such a file; `file` is for messages.
Sweep parse_sweep(const std::string& text, const std::string& file,
                  const std::filesystem::path& out);

}  // namespace shoal::cli
