#include <algorithm>
#include <cmath>

#include "runners/setting_values.h"
#include "shoal/core/arena.h"
#include "shoal/core/error.h"
#include "shoal/core/text.h"
#include "shoal/runners/config.h"
#include "shoal/runners/device.h"

namespace shoal {
namespace {

void require_known(const std::string& what, const std::string& name,
                   const std::vector<std::string>& known) {
  require(std::find(known.begin(), known.end(), name) != known.end(),
          "there is no {} '{}'; the nearest is '{}'", what, name, nearest(name, known));
}

template <class T>
void at_least(const char* key, T value, T low) {
  require(value >= low, "{}: found {}, expected at least {}", key, value, low);
}

void within(const char* key, double value, double low, double high) {
  require(value >= low && value <= high, "{}: found {}, expected {} to {}", key, value, low, high);
}

void validate_sampler(const SamplerOptions& s) {
  at_least<std::int64_t>("sampler.horizon", s.horizon, 1);
  at_least<std::int64_t>("sampler.envs", s.envs, 1);
  at_least("sampler.workers", s.workers, 1);
  require(
      s.kind == SamplerKind::kSerial || s.workers <= s.envs,
      "sampler.workers: {} workers cannot share {} environments; give at most one worker to each",
      s.workers, s.envs);
  require(s.envs <= (std::int64_t{1} << 40) / s.horizon,
          "sampler.envs: {} environments times {} steps is more than any machine holds", s.envs,
          s.horizon);
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
  require(p.learning_rate > 0 && std::isfinite(p.learning_rate),
          "ppo.learning_rate: found {}, expected a number above 0", p.learning_rate);
  within("ppo.discount", p.discount, 0, 1);
  within("ppo.gae_lambda", p.gae_lambda, 0, 1);
  require(p.clip > 0, "ppo.clip: found {}, expected a number above 0", p.clip);
  at_least("ppo.adam_epsilon", p.adam_epsilon, 0.0);
  at_least("ppo.value_clip", p.value_clip, 0.0);
  at_least("ppo.max_grad_norm", p.max_grad_norm, 0.0);
  at_least("ppo.target_kl", p.target_kl, 0.0);
}

// A network that does not fit would otherwise end as a killed process: weights, gradients and two
// moments.
void validate_model(const ModelOptions& model) {
  require_known("model (model.name)", model.name, model_names());
  double weights = 0, before = 1;
  for (const auto units : model.hidden) {
    at_least<std::int64_t>("model.hidden", units, 1);
    weights += before * static_cast<double>(units);
    before = static_cast<double>(units);
  }
  const double bytes = weights * sizeof(float) * 4,
               available = static_cast<double>(available_memory());
  require(
      bytes < available,
      "model.hidden: the network needs {:.1f} GB with its optimizer, but {:.1f} GB are available",
      bytes / 1e9, available / 1e9);
}

}  // namespace

std::vector<std::string> algo_names() { return {"ppo"}; }

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
  parse_device(config.device);
  validate_sampler(config.sampler);
  validate_model(config.model);
  validate_ppo(config);
}

SamplerOptions training_sampler(const Config& config) {
  SamplerOptions options = config.sampler;
  options.seed = config.seed;
  options.stream = Stream::kTrain;
  options.greedy = false;
  return options;
}

std::unique_ptr<ActorCritic> make_agent(const Config& config) {
  const auto env = make_env_factory(config.env_id, config.env)({});
  return make_categorical(env->spec(), config.model, config.agent, config.seed);
}

std::unique_ptr<OnPolicyAlgo> make_algo(const Config& config, ActorCritic& agent) {
  require_known("algo", config.algo, algo_names());
  PpoOptions options = config.ppo;
  options.seed = config.seed;
  return make_ppo(agent, options);
}

}  // namespace shoal
