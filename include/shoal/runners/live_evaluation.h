#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>

#include "shoal/agents/agent.h"
#include "shoal/envs/env.h"
#include "shoal/runners/log.h"

namespace shoal {

struct LiveEvaluationOptions {
  double seconds = 60;         // from the start of one evaluation to that of the next, at least
  std::int64_t episodes = 10;  // complete ones in each, greedy
  std::uint64_t seed = 1;      // of the evaluation stream
};

// A process of its own that evaluates the agent while the training goes on: on its own
// environments, with the newest parameters at the time it begins, at the lowest priority. Nobody
// waits for it; results come late, and become rows of `folder`/evaluation.csv, whose "steps" and
// "seconds" are those of the parameters.
//
// Forks: the rules of make_sampler() hold. Give it to Session::add_sink(): with each row it is
// offered the agent's parameters. If the process fails, the training goes on, and this is said.
std::unique_ptr<LogSink> make_live_evaluation(const EnvFactory& make_env, Agent& agent,
                                              const std::filesystem::path& folder,
                                              const LiveEvaluationOptions& options = {});

inline constexpr const char* kEvaluationFile = "evaluation.csv";

}  // namespace shoal
