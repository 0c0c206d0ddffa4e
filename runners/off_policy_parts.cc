#include "runners/off_policy_parts.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "shoal/core/error.h"

namespace shoal {
namespace {

StepReplayOptions replay_options(const Config& config) {
  auto options = config.replay;
  options.seed = config.seed;
  options.largest_batch = off_policy_batch(config);
  return options;
}

template <class Options>
Options seeded(Options options, const Config& config) {
  options.seed = config.seed;
  return options;
}

std::unique_ptr<OffPolicyAlgo> make_algo(const Config& config, Agent& agent, StepReplay& replay) {
  if (config.algo == "dqn") return make_dqn(dynamic_cast<QAgent&>(agent), replay, config.dqn);
  auto& control = dynamic_cast<ControlAgent&>(agent);
  if (config.algo == "ddpg") return make_ddpg(control, replay, config.ddpg);
  if (config.algo == "td3") return make_td3(control, replay, seeded(config.td3, config));
  return make_sac(control, replay, seeded(config.sac, config));
}

}  // namespace

bool is_off_policy(const Config& config) {
  return std::ranges::find(kOffPolicyAlgos, std::string_view(config.algo)) != kOffPolicyAlgos.end();
}

std::unique_ptr<Agent> make_off_policy_agent(const Config& config, const EnvSpec& env) {
  if (config.algo == "dqn") {
    auto options = config.q;
    options.epsilons = config.epsilon_each ? config.sampler.envs : 1;
    return make_q_agent(env, config.model, options, config.seed);
  }
  require(config.model.name == "mlp", "model.name: found {}, and {} has networks of kind mlp only",
          config.model.name, config.algo);
  return make_control_agent(env,
                            {.stochastic = config.algo == "sac",
                             .critics = config.algo == "ddpg" ? 1 : 2,
                             .hidden = config.model.hidden},
                            config.seed);
}

std::int64_t off_policy_batch(const Config& config) {
  if (config.algo == "ddpg") return config.ddpg.batch;
  if (config.algo == "td3") return config.td3.batch;
  return config.algo == "sac" ? config.sac.batch : config.dqn.batch;
}

std::string replay_size(const Config& config, const EnvSpec& env) {
  const auto bytes = StepReplay::bytes(env, config.sampler.envs, replay_options(config));
  const bool large = bytes >= 1'000'000'000;
  return fmt::format("{} steps, {:.3g} {}", config.replay.size,
                     static_cast<double>(bytes) / (large ? 1e9 : 1e6), large ? "GB" : "MB");
}

Learner make_learner(const Config& config, const EnvSpec& env, Agent& agent) {
  auto replay = std::make_unique<StepReplay>(env, config.sampler.envs, replay_options(config));
  auto algo = make_algo(config, agent, *replay);
  return {.replay = std::move(replay), .algo = std::move(algo), .batch = off_policy_batch(config)};
}

}  // namespace shoal
