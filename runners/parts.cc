#include "runners/known.h"
#include "runners/memory_needs.h"
#include "runners/off_policy_parts.h"
#include "runners/setting_values.h"
#include "shoal/core/error.h"
#include "shoal/core/worker_group.h"
#include "shoal/runners/config.h"
#include "src/core/registered.h"
#include "src/envs/construction.h"

namespace shoal {
namespace {

Registered<AlgoFactory>& registered_algos() {
  static Registered<AlgoFactory> all;
  return all;
}

}  // namespace

std::vector<std::string> algo_names() {
  std::vector<std::string> names{"ppo", "a2c", "impala"};
  for (const auto* name : kOffPolicyAlgos) names.emplace_back(name);
  registered_algos().append_names(names);
  return names;
}

void register_algo(const std::string& name, AlgoFactory make) {
  registered_algos().add("an algorithm", name, std::move(make), algo_names());
}

std::vector<std::string> sampler_names() {
  std::vector<std::string> names;
  for (const auto& [name, kind] : kSamplerKinds) names.emplace_back(name);
  return names;
}

int tensor_threads(const Config& config) {
  return config.threads > 0 ? config.threads : static_cast<int>(allowed_cores().size());
}

Config whole_games(Config config) {
  config.env.atari.episodic_life = false;
  return config;
}

EnvFactory make_env_factory(const Config& config) {
  auto env = config.env;
  env.gymnasium.reset_limit = config.sampler.reset_limit;
  return make_env_factory(config.env_id, env);
}

SamplerOptions training_sampler(const Config& config) {
  SamplerOptions options = config.sampler;
  options.seed = config.seed;
  options.stream = Stream::kTrain;
  options.greedy = false;
  options.host_windows = is_off_policy(config);
  options.discount = is_off_policy(config)     ? config.replay.discount
                     : config.algo == "a2c"    ? config.a2c.discount
                     : config.algo == "impala" ? config.impala.discount
                                               : config.ppo.discount;
  return options;
}

std::unique_ptr<Agent> make_agent(const Config& config) {
  return make_agent(config, spec_of(make_env_factory(config), {}, config.sampler.reset_limit));
}

std::unique_ptr<Agent> make_agent(const Config& config, const EnvSpec& env) {
  if (!is_off_policy(config)) return make_actor_critic(config, env);
  require_weights_fit(config, env);
  return make_off_policy_agent(config, env);
}

std::unique_ptr<ActorCritic> make_actor_critic(const Config& config) {
  return make_actor_critic(config,
                           spec_of(make_env_factory(config), {}, config.sampler.reset_limit));
}

std::unique_ptr<ActorCritic> make_actor_critic(const Config& config, const EnvSpec& env) {
  require(!is_off_policy(config), "algo: '{}' learns from a replay, with an agent of another kind",
          config.algo);
  require_weights_fit(config, env);
  return make_actor_critic(env, config.model, config.agent, config.seed);
}

std::unique_ptr<OnPolicyAlgo> make_algo(const Config& config, ActorCritic& agent, Ranks& ranks) {
  require_known("algo", config.algo, algo_names());
  if (const auto* own = registered_algos().find(config.algo)) {
    require(ranks.count() == 1, "ranks: found {}, but '{}' learns in one process: 1 was expected",
            ranks.count(), config.algo);
    return (*own)(agent, config);
  }
  if (config.algo == "a2c") return make_a2c(agent, config.a2c, ranks);
  if (config.algo == "impala") return make_impala(agent, config.impala, ranks);
  PpoOptions options = config.ppo;
  options.seed = config.seed;
  return make_ppo(agent, options, ranks);
}

}  // namespace shoal
