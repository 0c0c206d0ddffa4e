#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "runners/setting_values.h"
#include "shoal/core/arena.h"
#include "shoal/core/error.h"
#include "shoal/core/text.h"
#include "shoal/core/worker_group.h"
#include "shoal/runners/config.h"
#include "shoal/runners/device.h"
#include "src/core/registered.h"

namespace shoal {
namespace {

void require_known(const std::string& what, const std::string& name,
                   const std::vector<std::string>& known) {
  require(std::find(known.begin(), known.end(), name) != known.end(),
          "there is no {} '{}'; the nearest is '{}'", what, name, nearest(name, known));
}

template <class T>
void at_least(const std::string& key, T value, T low) {
  require(value >= low, "{}: found {}, expected at least {}", key, value, low);
}

void within(const std::string& key, double value, double low, double high) {
  require(value >= low && value <= high, "{}: found {}, expected {} to {}", key, value, low, high);
}

void validate_sampler(const SamplerOptions& s) {
  at_least<std::int64_t>("sampler.horizon", s.horizon, 1);
  at_least<std::int64_t>("sampler.envs", s.envs, 1);
  at_least("sampler.workers", s.workers, 1);
  within("sampler.groups", s.groups, 1, std::min<double>(2, static_cast<double>(s.envs)));
  at_least<std::int64_t>("sampler.decorrelation", s.decorrelation, 0);
  require(
      s.kind == SamplerKind::kSerial || s.workers <= s.envs,
      "sampler.workers: {} workers cannot share {} environments; give at most one worker to each",
      s.workers, s.envs);
  require(s.envs <= (std::int64_t{1} << 40) / s.horizon,
          "sampler.envs: {} environments times {} steps is more than any machine holds", s.envs,
          s.horizon);
}

// What both algorithms have, each in a table of its own name.
template <class Options>
void validate_learning(const std::string& algo, const Options& o) {
  auto key = [&algo](const char* name) { return algo + "." + name; };
  require(o.learning_rate > 0 && std::isfinite(o.learning_rate),
          "{}: found {}, expected a number above 0", key("learning_rate"), o.learning_rate);
  within(key("discount"), o.discount, 0, 1);
  within(key("gae_lambda"), o.gae_lambda, 0, 1);
  require(o.optimizer_epsilon > 0, "{}: found {}, expected a number above 0",
          key("optimizer_epsilon"), o.optimizer_epsilon);
  at_least(key("max_grad_norm"), o.max_grad_norm, 0.0);
}

void validate_ppo(const Config& config) {
  const auto& p = config.ppo;
  const auto samples = config.sampler.horizon * config.sampler.envs;
  at_least("ppo.epochs", p.epochs, 1);
  at_least("ppo.minibatches", p.minibatches, 1);
  require(p.minibatches <= samples,
          "ppo.minibatches: {} minibatches cannot share {} samples "
          "(sampler.horizon x sampler.envs)",
          p.minibatches, samples);
  require(config.model.memory == MemoryKind::kNone || config.algo != "ppo" ||
              p.minibatches <= config.sampler.envs,
          "ppo.minibatches: {} minibatches cannot share {} environments (sampler.envs): with a "
          "memory, each learns from whole sequences",
          p.minibatches, config.sampler.envs);
  require(p.clip > 0, "ppo.clip: found {}, expected a number above 0", p.clip);
  at_least("ppo.value_clip", p.value_clip, 0.0);
  at_least("ppo.target_kl", p.target_kl, 0.0);
}

void validate_dqn(const DqnOptions& d, const QAgentOptions& q) {
  at_least<std::int64_t>("dqn.atoms", q.atoms, 2);
  require(q.v_min < q.v_max, "dqn.v_min: found {}, expected less than dqn.v_max, {}", q.v_min,
          q.v_max);
  require(q.noise > 0, "dqn.noise: found {}, expected a number above 0", q.noise);
  require(d.learning_rate > 0 && std::isfinite(d.learning_rate),
          "dqn.learning_rate: found {}, expected a number above 0", d.learning_rate);
  require(d.optimizer_epsilon > 0, "dqn.optimizer_epsilon: found {}, expected a number above 0",
          d.optimizer_epsilon);
  at_least<std::int64_t>("dqn.batch", d.batch, 1);
  at_least<std::int64_t>("dqn.target_interval", d.target_interval, 1);
  within("dqn.target_share", d.target_share, 1e-9, 1);
  at_least("dqn.huber", d.huber, 0.0);
  at_least("dqn.max_grad_norm", d.max_grad_norm, 0.0);
  within("dqn.beta_start", d.beta_start, 0, 1);
  within("dqn.beta_end", d.beta_end, 0, 1);
  within("dqn.epsilon_start", d.epsilon_start, 0, 1);
  within("dqn.epsilon_end", d.epsilon_end, 0, 1);
  within("dqn.epsilon_last", d.epsilon_last, 0, 1);
  within("dqn.epsilon_share", d.epsilon_share, 1e-9, 1);
}

void validate_replay(const Config& config) {
  at_least<std::int64_t>("off_policy.learning_starts", config.off_policy.learning_starts, 0);
  require(config.off_policy.replay_ratio > 0 && std::isfinite(config.off_policy.replay_ratio),
          "off_policy.replay_ratio: found {}, expected a number above 0",
          config.off_policy.replay_ratio);
  const auto& r = config.replay;
  const auto window = config.sampler.envs * config.sampler.horizon;
  require(r.size >= window,
          "replay.size: found {}, expected at least the {} steps of a window (sampler.horizon x "
          "sampler.envs)",
          r.size, window);
  within("replay.n_step", r.n_step, 1, 255);
  within("replay.discount", r.discount, 0, 1);
  at_least("replay.alpha", r.alpha, 0.0);
}

bool anneals(const Config& config) {
  return (config.algo == "ppo" && config.ppo.anneal_learning_rate) ||
         (config.algo == "a2c" && config.a2c.anneal_learning_rate) ||
         (config.algo == "dqn" && config.dqn.anneal_learning_rate);
}

Registered<AlgoFactory>& registered_algos() {
  static Registered<AlgoFactory> all;
  return all;
}

void validate_model(const ModelOptions& model) {
  require_known("model (model.name)", model.name, model_names());
  for (const auto units : model.hidden) at_least<std::int64_t>("model.hidden", units, 1);
  at_least<std::int64_t>("model.memory_size", model.memory_size, 1);
  require(model.memory == MemoryKind::kNone || model.name == "mlp" || model.name == "nature-cnn",
          "model.memory: found a memory for model '{}'; only mlp and nature-cnn get one this way",
          model.name);
}

// Numbers a network keeps: weights, and outputs of its layers for one observation.
struct NetworkSize {
  double weights = 0, outputs = 0;
};

NetworkSize mlp_size(double inputs, const ModelOptions& model) {
  NetworkSize size{.outputs = inputs};
  for (const auto units : model.hidden) {
    size.weights += inputs * static_cast<double>(units);
    size.outputs += inputs = static_cast<double>(units);
  }
  const double trunks = model.shared_trunk ? 1 : 2;
  return {size.weights * trunks, size.outputs * trunks};
}

// Of height x width x channels numbers; the layers of Mnih et al. (2015).
NetworkSize nature_cnn_size(double height, double width, double channels) {
  NetworkSize size{.outputs = height * width * channels};
  for (const auto& [filter, stride, filters] :
       {std::array{8.0, 4.0, 32.0}, {4.0, 2.0, 64.0}, {3.0, 1.0, 64.0}}) {
    height = (height - filter) / stride + 1, width = (width - filter) / stride + 1;
    size.outputs += height * width * filters;
  }
  size.weights = height * width * 64 * 512;
  return size;
}

// Gates that read the features and their own outputs.
NetworkSize memory_size(double features, const ModelOptions& model) {
  if (model.memory == MemoryKind::kNone) return {};
  const double gates = model.memory == MemoryKind::kLstm ? 4 : 3;
  const auto units = static_cast<double>(model.memory_size);
  return {.weights = gates * units * (features + units), .outputs = (gates + 4) * units};
}

NetworkSize layers_size(const Config& config, const EnvSpec& env) {
  double inputs = 0;
  for (const auto& [name, spec] : env.observation)
    inputs += static_cast<double>(spec.count() * spec.stack);
  const auto& shape = env.observation[0].shape;
  if (config.model.name != "nature-cnn" || shape.size() < 2) return mlp_size(inputs, config.model);
  const auto height = static_cast<double>(shape[shape.size() - 2]),
             width = static_cast<double>(shape.back());
  return nature_cnn_size(height, width, inputs / (height * width));
}

NetworkSize network_size(const Config& config, const EnvSpec& env) {
  const auto layers = layers_size(config, env);
  const bool cnn = config.model.name == "nature-cnn";
  const double features = cnn                          ? 512
                          : config.model.hidden.empty() ? layers.outputs
                                                        : static_cast<double>(config.model.hidden.back());
  const auto memory = memory_size(features, config.model);
  return {layers.weights + memory.weights, layers.outputs + memory.outputs};
}

// What does not fit would otherwise end as a killed process.
void require_fits(double numbers, const std::string& what) {
  const double bytes = numbers * sizeof(float), available = static_cast<double>(available_memory());
  require(bytes < available, "{} needs {:.1f} GB, and {:.1f} GB are available", what, bytes / 1e9,
          available / 1e9);
}

// Weights, their gradients and two moments, and the copy that acts.
void require_weights_fit(const Config& config, const EnvSpec& env) {
  require_fits(5 * network_size(config, env).weights, "the network (model.hidden)");
}

StepReplayOptions replay_options(const Config& config) {
  auto options = config.replay;
  options.seed = config.seed;
  options.largest_batch = config.dqn.batch;
  return options;
}

}  // namespace

std::vector<std::string> algo_names() {
  std::vector<std::string> names{"ppo", "a2c", "dqn"};
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

void validate(const Config& config) {
  require_known("algo", config.algo, algo_names());
  require(!config.env_id.empty(), "env.id is missing: name an environment (`shoal list envs`)");
  at_least<std::int64_t>("steps", config.steps, 1);
  at_least<std::int64_t>("schedule_steps", config.schedule_steps, 0);
  at_least("threads", config.threads, 0);
  require(config.threads <= 4096, "threads: found {}, expected at most 4096", config.threads);
  require(config.checkpoint_seconds > 0, "checkpoint_seconds: found {}, expected a number above 0",
          config.checkpoint_seconds);
  at_least<std::int64_t>("checkpoint_steps", config.checkpoint_steps, 0);
  at_least<std::int64_t>("keep_checkpoints", config.keep_checkpoints, 1);
  at_least<std::int64_t>("log_steps", config.log_steps, 0);
  at_least("table_seconds", config.table_seconds, 0.0);
  at_least<std::int64_t>("eval_steps", config.eval_steps, 0);
  at_least<std::int64_t>("eval_episodes", config.eval_episodes, 1);
  at_least<double>("live_eval_seconds", config.live_eval_seconds, 0);
  require(
      config.schedule_steps == 0 || config.steps <= config.schedule_steps || !anneals(config),
      "steps: found {}, but schedules end after {} (schedule_steps), and nothing is learned at a "
      "rate of 0; give schedule_steps = {} too",
      config.steps, config.schedule_steps, config.steps);
  require(
      config.agent.act_precision == Precision::kFloat32 ||
          (config.model.name == "nature-cnn" && config.model.memory == MemoryKind::kNone),
      "agent.act_precision: found bf16, but model '{}' acts in float32; only nature-cnn "
      "without a memory has both",
      config.model.name);
  parse_device(config.device);
  validate_sampler(config.sampler);
  validate_model(config.model);
  require(config.agent.initial_std > 0 && std::isfinite(config.agent.initial_std),
          "agent.initial_std: found {}, expected a number above 0", config.agent.initial_std);
  validate_learning("ppo", config.ppo);
  validate_learning("a2c", config.a2c);
  validate_ppo(config);
  validate_dqn(config.dqn, config.q);
  if (is_off_policy(config)) validate_replay(config);
}

int tensor_threads(const Config& config) {
  return config.threads > 0 ? config.threads : static_cast<int>(allowed_cores().size());
}

Config whole_games(Config config) {
  config.env.atari.episodic_life = false;
  return config;
}

SamplerOptions training_sampler(const Config& config) {
  SamplerOptions options = config.sampler;
  options.seed = config.seed;
  options.stream = Stream::kTrain;
  options.greedy = false;
  options.discount = is_off_policy(config)  ? config.replay.discount
                     : config.algo == "a2c" ? config.a2c.discount
                                            : config.ppo.discount;
  return options;
}

bool is_off_policy(const Config& config) { return config.algo == "dqn"; }

std::unique_ptr<Agent> make_agent(const Config& config) {
  return make_agent(config, make_env_factory(config.env_id, config.env)({})->spec());
}

std::unique_ptr<Agent> make_agent(const Config& config, const EnvSpec& env) {
  if (!is_off_policy(config)) return make_actor_critic(config, env);
  require_weights_fit(config, env);
  auto options = config.q;
  options.epsilons = config.epsilon_each ? config.sampler.envs : 1;
  return make_q_agent(env, config.model, options, config.seed);
}

std::unique_ptr<ActorCritic> make_actor_critic(const Config& config) {
  return make_actor_critic(config, make_env_factory(config.env_id, config.env)({})->spec());
}

std::unique_ptr<ActorCritic> make_actor_critic(const Config& config, const EnvSpec& env) {
  require(!is_off_policy(config), "algo: '{}' learns from a replay, with an agent of another kind",
          config.algo);
  require_weights_fit(config, env);
  return make_actor_critic(env, config.model, config.agent, config.seed);
}

void require_minibatch_fits(const Config& config, const EnvSpec& env) {
  if (is_off_policy(config)) {
    const auto batch = static_cast<double>(config.dqn.batch);
    require_fits(3 * network_size(config, env).outputs * batch,
                 fmt::format("learning from batches of {} steps", config.dqn.batch));
    return;
  }
  const int minibatches = config.algo == "ppo" ? config.ppo.minibatches : 1;
  const double samples = static_cast<double>(config.sampler.horizon) *
                         static_cast<double>(config.sampler.envs) / minibatches;
  // Outputs of all layers and their gradients.
  require_fits(2 * network_size(config, env).outputs * samples,
               fmt::format("learning from minibatches of {:.0f} samples (sampler.horizon x "
                           "sampler.envs{})",
                           samples, minibatches > 1 ? " / ppo.minibatches" : ""));
}

std::unique_ptr<OnPolicyAlgo> make_algo(const Config& config, ActorCritic& agent) {
  require_known("algo", config.algo, algo_names());
  if (const auto* own = registered_algos().find(config.algo)) return (*own)(agent, config);
  if (config.algo == "a2c") return make_a2c(agent, config.a2c);
  PpoOptions options = config.ppo;
  options.seed = config.seed;
  return make_ppo(agent, options);
}

std::string replay_size(const Config& config, const EnvSpec& env) {
  const auto bytes = StepReplay::bytes(env, config.sampler.envs, replay_options(config));
  return fmt::format("{} steps, {:.3g} {}", config.replay.size,
                     static_cast<double>(bytes) / (bytes < 1'000'000'000 ? 1e6 : 1e9),
                     bytes < 1'000'000'000 ? "MB" : "GB");
}

Learner make_learner(const Config& config, const EnvSpec& env, Agent& agent) {
  auto replay = std::make_unique<StepReplay>(env, config.sampler.envs, replay_options(config));
  auto algo = make_dqn(dynamic_cast<QAgent&>(agent), *replay, config.dqn);
  return {.replay = std::move(replay), .algo = std::move(algo), .batch = config.dqn.batch};
}

}  // namespace shoal
