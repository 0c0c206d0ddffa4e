#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>

#include "shoal/agents/agent.h"
#include "shoal/envs/env.h"
#include "shoal/runners/log.h"

namespace shoal {

struct LiveEvaluationOptions {
  double seconds = 60;         // minimum time between the starts of two evaluations
  std::int64_t episodes = 10;  // complete greedy episodes per evaluation
  std::uint64_t seed = 1;      // of the evaluation stream
};

// A process that evaluates the agent during training: on its own environments, with the newest
// parameters at the start of the evaluation, at the lowest priority. Training does not wait for it.
// Its results are rows of `folder`/evaluation.csv, whose "steps" and "seconds" are those of the
// parameters.
//
// Forks: the rules of make_sampler() apply. Pass the sink to Session::add_sink(); it receives the
// agent's parameters with each row. If the process fails, a message is printed and training
// continues; write() throws WorkerDataError if an environment gives a number that is not finite.
std::unique_ptr<LogSink> make_live_evaluation(const EnvFactory& make_env, Agent& agent,
                                              const std::filesystem::path& folder,
                                              const LiveEvaluationOptions& options = {});

inline constexpr const char* kEvaluationFile = "evaluation.csv";

}  // namespace shoal
