#include "runners/off_policy_parts.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "shoal/core/error.h"
#include "shoal/core/rng.h"

namespace shoal {
namespace {

// Of this rank's share.
StepReplayOptions step_options(const Config& config, const Ranks& ranks) {
  auto options = config.replay;
  options.size /= ranks.count();
  options.seed = config.seed;
  options.largest_batch = off_policy_batch(config) / ranks.count();
  options.slices = std::max(1, config.replay_slices / ranks.count());
  options.first_slice = ranks.rank() * options.slices;
  return options;
}

// The other settings of the replay, for sequences; a window begins one.
SequenceReplayOptions sequence_options(const Config& config, const Ranks& ranks) {
  const auto& r = config.replay;
  return {.size = r.size / ranks.count(),
          .burn_in = config.r2d1_burn_in,
          .length = config.r2d1_length,
          .interval = config.sampler.horizon,
          .n_step = r.n_step,
          .discount = r.discount,
          .prioritized = r.prioritized,
          .alpha = r.alpha,
          .seed = slice_seed(config.seed, ranks.rank()),
          .largest_batch = config.r2d1.batch / ranks.count()};
}

template <class Options>
Options seeded(Options options, const Config& config) {
  options.seed = config.seed;
  return options;
}

std::unique_ptr<OffPolicyAlgo> make_algo(const Config& config, Agent& agent, StepReplay& replay,
                                         Ranks& ranks) {
  if (config.algo == "dqn")
    return make_dqn(dynamic_cast<QAgent&>(agent), replay, config.dqn, ranks);
  auto& control = dynamic_cast<ControlAgent&>(agent);
  if (config.algo == "ddpg") return make_ddpg(control, replay, config.ddpg, ranks);
  if (config.algo == "td3") return make_td3(control, replay, seeded(config.td3, config), ranks);
  return make_sac(control, replay, seeded(config.sac, config), ranks);
}

}  // namespace

bool is_off_policy(const Config& config) {
  return std::ranges::find(kOffPolicyAlgos, std::string_view(config.algo)) != kOffPolicyAlgos.end();
}

std::unique_ptr<Agent> make_off_policy_agent(const Config& config, const EnvSpec& env) {
  const auto epsilons = config.epsilon_each ? config.sampler.envs : 1;
  if (config.algo == "dqn") {
    auto options = config.q;
    options.epsilons = epsilons;
    return make_q_agent(env, config.model, options, config.seed);
  }
  if (config.algo == "r2d1") {
    auto options = config.recurrent_q;
    options.epsilons = epsilons;
    return make_recurrent_q_agent(env, config.model, options, config.seed);
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
  if (config.algo == "r2d1") return config.r2d1.batch * (config.r2d1_burn_in + config.r2d1_length);
  if (config.algo == "ddpg") return config.ddpg.batch;
  if (config.algo == "td3") return config.td3.batch;
  return config.algo == "sac" ? config.sac.batch : config.dqn.batch;
}

std::string replay_size(const Config& config, const EnvSpec& env, const Agent& agent) {
  const auto envs = config.sampler.envs;
  const auto bytes =
      config.algo == "r2d1"
          ? SequenceReplay::bytes(env, agent.spec().state, envs, sequence_options(config, alone()))
          : StepReplay::bytes(env, envs, step_options(config, alone()));
  const bool large = bytes >= 1'000'000'000;
  return fmt::format("{} steps, {:.1f} {}", config.replay.size,
                     static_cast<double>(bytes) / (large ? 1e9 : 1e6), large ? "GB" : "MB");
}

namespace {

std::unique_ptr<StepReplay> make_replay(const Config& config, const EnvSpec& env, Ranks& ranks,
                                        const ReplayMemory* memory) {
  const auto envs = config.sampler.envs;
  if (memory == nullptr)
    return std::make_unique<StepReplay>(env, envs / ranks.count(), step_options(config, ranks));
  auto all = step_options(config, alone());
  all.slices = 1;
  return std::make_unique<StepReplay>(env, envs, all, ranks, *memory);
}

std::unique_ptr<SequenceReplay> make_replay(const Config& config, const EnvSpec& env,
                                            const NamedSpecs& state, Ranks& ranks,
                                            const ReplayMemory* memory) {
  const auto envs = config.sampler.envs;
  if (memory == nullptr)
    return std::make_unique<SequenceReplay>(env, state, envs / ranks.count(),
                                            sequence_options(config, ranks));
  return std::make_unique<SequenceReplay>(env, state, envs, sequence_options(config, alone()),
                                          ranks, *memory);
}

}  // namespace

Learner make_learner(const Config& config, const EnvSpec& env, Agent& agent, Ranks& ranks,
                     const ReplayMemory* memory) {
  const auto batch = off_policy_batch(config);
  if (config.algo == "r2d1") {
    auto replay = make_replay(config, env, agent.spec().state, ranks, memory);
    auto algo = make_r2d1(dynamic_cast<RecurrentQAgent&>(agent), *replay, config.r2d1, ranks);
    return {.replay = std::move(replay), .algo = std::move(algo), .batch = batch};
  }
  auto replay = make_replay(config, env, ranks, memory);
  auto algo = make_algo(config, agent, *replay, ranks);
  return {.replay = std::move(replay), .algo = std::move(algo), .batch = batch};
}

}  // namespace shoal
