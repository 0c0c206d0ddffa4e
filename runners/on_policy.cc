#include "shoal/runners/on_policy.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <iterator>
#include <stdexcept>

#include "shoal/core/error.h"
#include "shoal/core/rng.h"
#include "shoal/runners/device.h"
#include "shoal/runners/evaluation.h"
#include "shoal/runners/live_evaluation.h"

namespace shoal {
namespace {

// An Error here is no mistake of the user's: a disk is full, or an environment threw it.
template <class Action>
void while_training(Action action) {
  try {
    action();
  } catch (const Error& e) {
    throw std::runtime_error(e.what());
  }
}

EnvFactory make_evaluated(const Config& config) {
  return make_env_factory(config.env_id, whole_games(config).env);
}

// In this process, on seeds of this moment: the same ones in a run that was resumed.
Metrics evaluate_now(const Config& config, Agent& agent, const Session& session) {
  const auto result = Evaluator(make_evaluated(config), agent,
                                {.episodes = config.eval_episodes,
                                 .seed = env_seed(config.seed, Stream::kEval, session.steps()),
                                 .kind = SamplerKind::kSerial})
                          .run([&] { return session.stop_signal() != 0; });
  if (result.episodes < config.eval_episodes) return {};
  return {{"eval_return", result.mean_return}, {"eval_std", result.std_return}};
}

}  // namespace

void run_on_policy(Session& session, Sampler& sampler, OnPolicyAlgo& algo,
                   const Evaluate& evaluate) {
  while_training([&] {
    while (session.running()) {
      const Batch batch = sampler.collect();
      const Progress progress = session.advance(batch);
      auto metrics = algo.update(batch.samples, progress);
      if (evaluate && session.evaluation_is_due())
        std::ranges::move(evaluate(), std::back_inserter(metrics));
      session.report(metrics, sampler.times());
    }
  });
}

TrainingEnd train(const Config& config, const std::filesystem::path& folder,
                  const SessionOptions& options) {
  Session session(config, folder, options);
  const auto make_env = make_env_factory(config.env_id, config.env);
  at::set_num_threads(1);  // no thread pool may exist when the workers are forked
  const auto spec = make_env({})->spec();
  const auto agent = make_agent(config, spec);
  require_minibatch_fits(config, spec);
  const auto sampler =
      make_sampler(make_env, *agent, training_sampler(config), session.sampler_state());

  if (config.live_eval_seconds > 0)
    session.add_sink(make_live_evaluation(make_evaluated(config), *agent, folder,
                                          {.seconds = config.live_eval_seconds,
                                           .episodes = config.eval_episodes,
                                           .seed = env_seed(config.seed, Stream::kEval, 0)}));

  move_to_device(*agent, config.device);
  at::set_num_threads(tensor_threads(config));
  const auto algo = make_algo(config, *agent);

  session.begin(*agent, *algo, sampler.get());
  run_on_policy(session, *sampler, *algo, [&] { return evaluate_now(config, *agent, session); });
  while_training([&] { session.finish(); });
  return {
      .signal = session.stop_signal(), .solved = session.solved(), .episodes = session.episodes()};
}

}  // namespace shoal
