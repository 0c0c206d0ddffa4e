#include "shoal/runners/train.h"

#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <new>

#include "runners/while_training.h"
#include "shoal/core/arena.h"
#include "shoal/core/rank_exchange.h"
#include "shoal/core/rank_group.h"
#include "shoal/core/rng.h"
#include "shoal/core/step_barrier.h"
#include "shoal/core/worker_group.h"
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

// Each rank plays its share, in this process, on seeds of this moment: the same ones in a run that
// was resumed.
Metrics evaluate_now(const Config& config, Agent& agent, const Session& session, Ranks& ranks) {
  const std::int64_t n = ranks.count(), r = ranks.rank();
  const auto share = config.eval_episodes * (r + 1) / n - config.eval_episodes * r / n;
  const auto now = env_seed(config.seed, Stream::kEval, session.steps());
  std::vector<double> returns;
  if (share > 0)
    returns = Evaluator(make_evaluated(config), agent,
                        {.episodes = share,
                         .seed = r == 0 ? now : env_seed(now, Stream::kEval, r),
                         .kind = SamplerKind::kSerial})
                  .run([&] { return session.stop_signal() != 0; })
                  .returns;
  const auto all = moments(ranks, at::tensor(returns, at::kDouble));
  if (all.count < static_cast<double>(config.eval_episodes)) return {};
  return {{kEvalReturn, all.mean},
          {"eval_std", std::sqrt(all.variance * (all.count - 1) / all.count)}};
}

// Beside its share of the environments and workers, a rank has its share of the cores, if there is
// one for each and none are given: what it forks and the threads it starts stay there.
Config share_of(const Config& config, const Ranks& ranks) {
  auto own = config;
  const int n = ranks.count(), r = ranks.rank();
  if (n == 1) return own;
  own.sampler.envs = config.sampler.envs / n;
  own.sampler.first_env = own.sampler.envs * r;
  own.sampler.workers =
      std::max(1, config.sampler.workers * (r + 1) / n - config.sampler.workers * r / n);
  own.sampler.workers =
      static_cast<int>(std::min<std::int64_t>(own.sampler.workers, own.sampler.envs));
  const auto cores = allowed_cores();
  const auto begin = [&](int rank) {
    return cores.begin() + static_cast<std::ptrdiff_t>(cores.size()) * rank / n;
  };
  if (cores.size() >= static_cast<std::size_t>(n) && config.sampler.cores.empty())
    use_cores({begin(r), begin(r + 1)});
  return own;
}

TrainingEnd train_rank(const Config& whole, const std::filesystem::path& folder,
                       const SessionOptions& options) {
  auto& ranks = *options.ranks;
  Session session(whole, folder, options);
  const auto config = share_of(whole, ranks);
  const auto make_env = make_env_factory(config.env_id, config.env);
  at::set_num_threads(1);  // no thread pool may exist when the workers are forked
  const auto spec = make_env({})->spec();
  const auto agent = make_agent(whole, spec);
  require_minibatch_fits(config, spec);
  std::unique_ptr<Agent> actor;  // of an asynchronous sampler
  std::unique_ptr<Sampler> sampler;
  if (config.asynchronous) {
    actor = make_agent(whole, spec);
    sampler = make_async_sampler(make_env, *agent, *actor, training_sampler(config), config.async,
                                 session.sampler_state());
  } else {
    sampler = make_sampler(make_env, *agent, training_sampler(config), session.sampler_state());
  }

  if (config.live_eval_seconds > 0 && ranks.rank() == 0)
    session.add_sink(make_live_evaluation(make_evaluated(config), *agent, folder,
                                          {.seconds = config.live_eval_seconds,
                                           .episodes = config.eval_episodes,
                                           .seed = env_seed(config.seed, Stream::kEval, 0)}));

  move_to_device(*agent, config.device);
  if (actor && config.sampler.kind != SamplerKind::kParallelCpu)
    move_to_device(*actor, config.device);  // a thread of this process acts with it
  at::set_num_threads(tensor_threads(config));
  const auto evaluate = [&] { return evaluate_now(config, *agent, session, ranks); };
  if (is_off_policy(config)) {
    if (!options.quiet && ranks.rank() == 0)
      fmt::print("replay: {}\n", replay_size(whole, spec, *agent));
    auto learner = make_learner(whole, spec, *agent, ranks);
    session.begin(*agent, *learner.algo, sampler.get(), learner.replay.get());
    run_off_policy(session, *sampler, learner, config.off_policy, evaluate);
    while_training([&] { session.finish(); });
  } else {
    const auto algo = make_algo(config, dynamic_cast<ActorCritic&>(*agent), ranks);
    session.begin(*agent, *algo, sampler.get());
    run_on_policy(session, *sampler, *algo, evaluate);
    while_training([&] { session.finish(); });
  }
  return {.signal = session.stop_signal(),
          .solved = session.solved(),
          .episodes = session.episodes().total(),
          .mean_return = session.episodes().mean_score()};
}

}  // namespace

TrainingEnd train(const Config& config, const std::filesystem::path& folder,
                  const SessionOptions& options) {
  if (config.ranks == 1) return train_rank(config, folder, options);
  validate(config);
  const RankExchangeOptions exchange_options{
      .ranks = config.ranks,
      .spin = default_spin(config.ranks),
      .timeout = std::chrono::milliseconds(std::llround(1e3 * config.rank_timeout))};
  Arena::Plan plan;
  const auto words = plan.add_bytes(RankExchange::bytes(exchange_options));
  const auto end = plan.add_bytes(sizeof(TrainingEnd));
  const Arena arena(plan);
  const RankExchange exchange(arena.data(words), exchange_options);
  auto& result = *new (arena.data(end)) TrainingEnd;
  const int status = run_ranks(config.ranks, [&](int rank) {
    const auto ranks = make_shared_ranks(exchange.of(rank));
    auto own = options;
    own.ranks = ranks.get();
    const auto of_rank = train_rank(config, folder, own);
    if (rank == 0) result = of_rank;
    return 0;
  });
  if (status != 0) result.signal = status - 128;  // that ended rank 0 before it could say so
  return result;
}

}  // namespace shoal
