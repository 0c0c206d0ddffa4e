#pragma once

#include <filesystem>
#include <sstream>
#include <string>
#include <vector>

#include "shoal/runners/session.h"
#include "tests/runners/temporary_folder.h"
#include "tests/runners/toy_parts.h"

namespace shoal {

// A rollout of 10 steps in which `ended` episodes with this score ended.
struct ToyRollout {
  explicit ToyRollout(double score = 0, int ended = 0)
      : episodes(ended, {.length = 5, .reward = score, .score = score}) {
    samples.T = 5;
    samples.B = 2;
    samples.steps = 10;
  }
  Batch batch() const { return {samples, episodes, infos}; }

  Samples samples;
  std::vector<Episode> episodes;
  std::vector<std::string> infos;
};

struct SessionParts {
  explicit SessionParts(const std::filesystem::path& folder,
                        const SessionOptions& options = {.quiet = true}, const Config& c = config())
      : session(c, folder, options) {}

  static Config config() {
    Config config = preset("cartpole-ppo");
    config.steps = 100;
    config.schedule_steps = 200;
    return config;
  }
  void once(const ToyRollout& rollout) {
    const auto progress = session.advance(rollout.batch());
    session.report(algo.update(rollout.samples, progress), {});
  }

  IdleAgent agent;
  IdleAlgo algo;
  Session session;
};

inline std::vector<std::string> lines_of(const std::filesystem::path& file) {
  std::istringstream text(read_file(file));
  std::vector<std::string> lines;
  for (std::string line; std::getline(text, line);) lines.push_back(line);
  return lines;
}

}  // namespace shoal
