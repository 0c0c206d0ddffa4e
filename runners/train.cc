#include "shoal/runners/train.h"

#include <ATen/Parallel.h>
#include <fmt/format.h>

#include "runners/while_training.h"
#include "shoal/core/rng.h"
#include "shoal/runners/device.h"
#include "shoal/runners/evaluation.h"
#include "shoal/runners/live_evaluation.h"
#include "shoal/runners/off_policy.h"
#include "shoal/runners/on_policy.h"

namespace shoal {
namespace {

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
  return {{kEvalReturn, result.mean_return}, {"eval_std", result.std_return}};
}

}  // namespace

TrainingEnd train(const Config& config, const std::filesystem::path& folder,
                  const SessionOptions& options) {
  Session session(config, folder, options);
  const auto make_env = make_env_factory(config.env_id, config.env);
  at::set_num_threads(1);  // no thread pool may exist when the workers are forked
  const auto spec = make_env({})->spec();
  const auto agent = make_agent(config, spec);
  require_minibatch_fits(config, spec);
  std::unique_ptr<Agent> actor;  // of an asynchronous sampler
  std::unique_ptr<Sampler> sampler;
  if (config.asynchronous) {
    actor = make_agent(config, spec);
    sampler = make_async_sampler(make_env, *agent, *actor, training_sampler(config), config.async,
                                 session.sampler_state());
  } else {
    sampler = make_sampler(make_env, *agent, training_sampler(config), session.sampler_state());
  }

  if (config.live_eval_seconds > 0)
    session.add_sink(make_live_evaluation(make_evaluated(config), *agent, folder,
                                          {.seconds = config.live_eval_seconds,
                                           .episodes = config.eval_episodes,
                                           .seed = env_seed(config.seed, Stream::kEval, 0)}));

  move_to_device(*agent, config.device);
  if (actor && config.sampler.kind != SamplerKind::kParallelCpu)
    move_to_device(*actor, config.device);  // a thread of this process acts with it
  at::set_num_threads(tensor_threads(config));
  const auto evaluate = [&] { return evaluate_now(config, *agent, session); };
  if (is_off_policy(config)) {
    if (!options.quiet) fmt::print("replay: {}\n", replay_size(config, spec, *agent));
    auto learner = make_learner(config, spec, *agent);
    session.begin(*agent, *learner.algo, sampler.get(), learner.replay.get());
    run_off_policy(session, *sampler, learner, config.off_policy, evaluate);
    while_training([&] { session.finish(); });
  } else {
    const auto algo = make_algo(config, dynamic_cast<ActorCritic&>(*agent));
    session.begin(*agent, *algo, sampler.get());
    run_on_policy(session, *sampler, *algo, evaluate);
    while_training([&] { session.finish(); });
  }
  return {
      .signal = session.stop_signal(), .solved = session.solved(), .episodes = session.episodes()};
}

}  // namespace shoal
