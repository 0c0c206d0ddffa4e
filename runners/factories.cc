#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "runners/memory_needs.h"
#include "samplers/partition.h"
#include "shoal/core/error.h"
#include "shoal/core/text.h"
#include "shoal/ipc/worker_group.h"
#include "shoal/runners/config.h"
#include "src/envs/construction.h"

namespace shoal {
const AlgoSpec& algo_of(const Config& config) { return config.algos.at(config.algo); }

bool is_off_policy(const Config& config) {
  return dynamic_cast<const OffPolicySpec*>(&algo_of(config)) != nullptr;
}

namespace {

std::int64_t rollouts_at_once(const Config& config) {
  const auto& s = config.sampler;
  if (!config.asynchronous || s.kind != SamplerKind::kParallelCpu) return 1;
  return workers_of_rank(config, 0);
}

}  // namespace

RunOptions run_options(const Config& config) {
  return {.model = config.model,
          .agent = config.agent,
          .off_policy = config.off_policy,
          .replay = config.replay,
          .horizon = config.sampler.horizon,
          .envs = config.sampler.envs,
          .rollouts = rollouts_at_once(config),
          .ranks = config.ranks,
          .seed = config.seed};
}

int tensor_threads(const Config& config) {
  return config.threads > 0 ? config.threads : static_cast<int>(allowed_cores().size());
}

int worker_count(const Config& config) { return worker_count(config, std::ssize(allowed_cores())); }

int worker_count(const Config& config, std::int64_t cores) {
  const auto& s = config.sampler;
  if (s.workers > 0) return s.workers;
  // Updates then learn from the environments of one worker, so that the number of cores would
  // change what is learned.
  if (config.asynchronous && s.kind == SamplerKind::kParallelCpu)
    return is_off_policy(config) || s.envs % 2 != 0 ? 1 : 2;
  return even_workers(s.envs, cores);
}

int workers_of_rank(const Config& config, int rank) {
  const int all = worker_count(config), n = config.ranks;
  const int share = std::max(1, all * (rank + 1) / n - all * rank / n);
  return static_cast<int>(std::clamp<std::int64_t>(config.sampler.envs / n, 1, share));
}

EnvFactory make_env_factory(const Config& config) {
  auto env = config.env;
  env.gymnasium.reset_limit = config.sampler.reset_limit;
  return make_env_factory(config.env_id, env);
}

SamplerOptions training_sampler(const Config& config) {
  SamplerOptions options = config.sampler;
  if (options.kind != SamplerKind::kAuto) options.workers = worker_count(config);
  options.seed = config.seed;
  options.stream = Stream::kTrain;
  options.greedy = false;
  options.host_rollouts = is_off_policy(config);
  options.discount = algo_of(config).discount(run_options(config));
  return options;
}

std::unique_ptr<Agent> make_agent(const Config& config) {
  return make_agent(config, spec_of(make_env_factory(config), {}, config.sampler.reset_limit));
}

std::unique_ptr<Agent> make_agent(const Config& config, const EnvSpec& env) {
  require_weights_fit(config, env);
  return algo_of(config).make_agent(env, run_options(config));
}

std::unique_ptr<OnPolicyAlgo> make_algo(const Config& config, Agent& agent, ProcessGroup& ranks) {
  const auto* spec = dynamic_cast<const OnPolicySpec*>(&algo_of(config));
  require(spec != nullptr, "algo: '{}' learns from a replay; use make_learner()", config.algo);
  return spec->make(agent, run_options(config), ranks);
}

namespace {

const OffPolicySpec& off_policy_spec(const Config& config) {
  const auto* spec = dynamic_cast<const OffPolicySpec*>(&algo_of(config));
  require(spec != nullptr, "algo: '{}' learns from no replay; use make_algo()", config.algo);
  return *spec;
}

}  // namespace

Learner make_learner(const Config& config, const EnvSpec& env, Agent& agent, ProcessGroup& ranks,
                     const ReplayMemory* memory) {
  const auto& spec = off_policy_spec(config);
  const auto run = run_options(config);
  auto replay = spec.make_replay(env, agent, run, ranks, memory);
  auto algo = spec.make(agent, *replay, run, ranks);
  return {.replay = std::move(replay), .algo = std::move(algo), .batch = spec.batch_steps()};
}

std::string replay_size(const Config& config, const EnvSpec& env, const Agent& agent) {
  const auto bytes = off_policy_spec(config).replay_bytes(env, agent, run_options(config));
  return fmt::format("{} steps, {}", config.replay.size, bytes_text(static_cast<double>(bytes)));
}

}  // namespace shoal
