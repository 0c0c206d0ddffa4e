#include "shoal/runners/evaluation.h"

#include <algorithm>
#include <cmath>

#include "shoal/core/error.h"
#include "shoal/core/stop.h"
#include "src/envs/construction.h"

namespace shoal {
namespace {

SamplerOptions sampler_options(const EvaluationOptions& o) {
  return {.kind = o.kind,
          .horizon = o.horizon,
          .envs = o.envs,
          .workers = o.workers,
          .seed = o.seed,
          .stream = Stream::kEval,
          .greedy = o.greedy,
          .step_limit = o.step_limit,
          .reset_limit = o.reset_limit,
          .action_log_bytes = 0,
          .pin = o.pin};
}

// The environments that only work together, such as the agents of one game.
std::int64_t stepped_together(const EnvFactory& make_env, const EvaluationOptions& o) {
  return construct_here(make_env, {.seed = o.seed, .stream = Stream::kEval}, o.reset_limit)
      ->batch()
      .multiple;
}

EvaluationResult summarize(const std::vector<Episode>& episodes,
                           const std::vector<std::string>& infos) {
  EvaluationResult result;
  for (std::size_t i = 0; i < infos.size(); ++i) {
    std::vector<double> values;
    for (const auto& episode : episodes) values.push_back(episode.info.at(i));
    result.infos.add(infos[i], std::move(values));
  }
  double sum = 0, squares = 0;
  for (const auto& episode : episodes) {
    result.returns.push_back(episode.score);
    result.lengths.push_back(episode.length);
    sum += episode.score;
  }
  result.episodes = static_cast<std::int64_t>(episodes.size());
  result.mean_return = sum / static_cast<double>(result.episodes);
  for (const double score : result.returns)
    squares += (score - result.mean_return) * (score - result.mean_return);
  result.std_return = std::sqrt(squares / static_cast<double>(result.episodes));
  return result;
}

}  // namespace

Evaluator::Evaluator(const EnvFactory& make_env, Agent& agent, const EvaluationOptions& options)
    : options_(options) {
  require(options.episodes > 0, "episodes: found {}, expected at least 1", options.episodes);
  require(options.envs > 0, "envs: found {}, expected at least 1", options.envs);
  require(options.workers > 0, "workers: found {}, expected at least 1", options.workers);
  options_.envs = std::min(options.envs, options.episodes);
  options_.workers = static_cast<int>(std::min<std::int64_t>(options.workers, options_.envs));
  const auto together = stepped_together(make_env, options);
  if (together > 1) {  // environments beyond the number of episodes play, but do not count
    const auto batches = (options_.envs + together - 1) / together;
    options_.envs = batches * together;
    while (batches % options_.workers != 0) --options_.workers;
  }
  sampler_ = make_sampler(make_env, agent, sampler_options(options_));
  ended_.resize(static_cast<std::size_t>(options_.envs), 0);
}

std::int64_t Evaluator::quota(std::int64_t env) const {
  return options_.episodes / options_.envs + (env < options_.episodes % options_.envs ? 1 : 0);
}

EvaluationResult Evaluator::run(const std::function<bool()>& stop) {
  // The number of the first episode that counts. The sampler numbers episodes across runs, and the
  // current episodes began with earlier parameters.
  auto first = ended_;
  for (auto& number : first) number += begun_ ? 1 : 0;
  std::vector<Episode> counted;
  std::vector<std::string> infos;
  while (static_cast<std::int64_t>(counted.size()) < options_.episodes && !(stop && stop())) {
    begun_ = true;
    try {
      const auto batch = sampler_->collect();
      infos = batch.infos;
      for (const auto& episode : batch.episodes) {
        const auto env = static_cast<std::size_t>(episode.env);
        ended_[env] = episode.number + 1;
        const auto n = episode.number - first[env];
        if (n >= 0 && n < quota(episode.env)) counted.push_back(episode);
      }
    } catch (const Interrupted&) {
      if (!stop) throw;
      break;
    }
  }
  std::sort(counted.begin(), counted.end(), [](const Episode& a, const Episode& b) {
    return std::pair(a.env, a.number) < std::pair(b.env, b.number);
  });
  return summarize(counted, infos);
}

EvaluationResult evaluate(const EnvFactory& make_env, Agent& agent,
                          const EvaluationOptions& options) {
  return Evaluator(make_env, agent, options).run();
}

}  // namespace shoal
