#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string_view>

#include "runners/settings.h"
#include "shoal/core/error.h"
#include "shoal/core/text.h"
#include "shoal/runners/config.h"
#include "shoal/runners/device.h"

namespace shoal {
namespace {

// Limit of environments times steps. The memory planner checks the product with the size of an
// observation.
constexpr std::int64_t kMostCells = std::int64_t{1} << 40;

constexpr std::string_view kBuiltinModels[] = {"auto", "mlp", "nature-cnn", "multi-input"};

// kAuto chooses parallel-gpu where only this supports an option.
bool batches_here(SamplerKind kind) {
  return kind == SamplerKind::kParallelGpu || kind == SamplerKind::kAuto;
}

void validate_sampler(const SamplerOptions& s, int workers, int ranks) {
  const auto envs = s.envs / ranks;
  require(s.groups <= envs,
          "sampler.groups: found {}, expected at most {}, the environments of each rank", s.groups,
          envs);
  require(
      s.kind == SamplerKind::kSerial || workers <= s.envs,
      "sampler.workers: {} workers cannot share {} environments; give at most one worker to each",
      workers, s.envs);
  require(s.dynamic_batch <= envs,
          "sampler.dynamic_batch: found {}, expected at most {}, the environments of each rank",
          s.dynamic_batch, envs);
  require(
      s.dynamic_batch == 0 || (batches_here(s.kind) && s.groups == 1),
      "sampler.dynamic_batch: found {}; only sampler.kind = parallel-gpu with sampler.groups = 1 "
      "supports dynamic batching",
      s.dynamic_batch);
  require(s.preempt_share == 1 || s.dynamic_batch > 0,
          "sampler.preempt_share: found {}, expected 1 without sampler.dynamic_batch",
          s.preempt_share);
  require(s.envs <= kMostCells / s.horizon,
          "sampler.envs: {} environments times {} steps (sampler.horizon) exceed 2^40 steps",
          s.envs, s.horizon);
}

void validate_async(const Config& config) {
  const auto& a = config.async;
  const auto& s = config.sampler;
  require(a.slots != 1, "async.slots: found 1, expected 0, or at least 2");
  require(!config.asynchronous || a.stale != StaleRollouts::kDrop || !is_off_policy(config),
          "async.stale: found drop, but algo '{}' learns from a replay, which takes every rollout; "
          "choose use",
          config.algo);
  require(a.stale != StaleRollouts::kDrop || a.max_lag >= a.publish_interval - 1,
          "async.max_lag: found {}, expected at least async.publish_interval - 1 = {}: with "
          "async.stale = drop every rollout between two publications would be dropped",
          a.max_lag, a.publish_interval - 1);
  require(s.on_death == OnDeath::kFail || !config.asynchronous || s.kind != SamplerKind::kSerial,
          "sampler.on_death: found restart, expected fail with serial and sampler.asynchronous");
  if (!config.asynchronous || s.kind != SamplerKind::kParallelCpu) return;
  const int workers = worker_count(config), of_rank = workers_of_rank(config, 0);
  const auto envs = s.envs / config.ranks;
  bool even = envs % of_rank == 0;
  for (int r = 1; r < config.ranks; ++r) even = even && workers_of_rank(config, r) == of_rank;
  require(even,
          "sampler.envs: {} environments cannot be shared evenly by {} workers{}, as "
          "sampler.asynchronous requires of parallel-cpu",
          s.envs, workers, config.ranks > 1 ? fmt::format(" in {} ranks", config.ranks) : "");
  require(s.groups <= envs / of_rank,
          "sampler.groups: {} groups cannot share the {} environments of each worker, as "
          "sampler.asynchronous requires of parallel-cpu",
          s.groups, envs / of_rank);
  require(!is_off_policy(config) || workers == 1,
          "sampler.workers: found {}, expected 1: a replay takes rollouts of all environments, but "
          "parallel-cpu with sampler.asynchronous fills one rollout per worker; or choose "
          "sampler.kind = parallel-gpu",
          workers);
}

// Updates are counted in 64 bits, those of one rollout in 32.
void validate_replay_ratio(const Config& config) {
  const double ratio = config.off_policy.replay_ratio;
  const double rollout = ratio * static_cast<double>(config.sampler.envs) *
                         static_cast<double>(config.sampler.horizon);
  require(
      rollout <= 1e9 && ratio * static_cast<double>(config.steps) <= 9e18,
      "off_policy.replay_ratio: found {}, which gives too many updates for {} environments times "
      "{} steps (sampler.horizon), or for {} steps in total; choose a smaller one",
      ratio, config.sampler.envs, config.sampler.horizon, config.steps);
}

void validate_model(const ModelOptions& model) {
  const auto names = model_names();
  const bool own = !is_builtin_model(model.name);
  require(std::ranges::find(names, model.name) != names.end(),
          "there is no model (model.name) '{}'; the nearest is '{}'", one_line(model.name),
          nearest(model.name, names));
  require(model.memory == MemoryKind::kNone || !own,
          "model.memory: found a memory for model '{}', expected none; only mlp, nature-cnn and "
          "multi-input support it",
          model.name);
  require(model.initial_weights == InitialWeights::kOrthogonal || !own,
          "model.initial_weights: found uniform, but model '{}' draws its own; leave it orthogonal",
          model.name);
  require(model.precision == Precision::kFloat32 || (!own && model.name != "mlp"),
          "model.precision: found bf16, but model '{}' learns in float32; only nature-cnn and "
          "multi-input support both",
          model.name);
  const bool any_cnn = own || model.name == "auto" || model.name == "multi-input";
  require(any_cnn || model.cnn == CnnKind::kAuto ||
              (model.name == "nature-cnn" && model.cnn == CnnKind::kNature),
          "model.cnn: found convolutions of another kind, but the layers of model '{}' are fixed; "
          "set model.name to auto as well",
          model.name);
  require(model.cnn == CnnKind::kLayers || model.cnn_layers.empty(),
          "model.cnn_layers: found layers, but model.cnn is not 'layers'; set it to layers");
}

bool is_json_object(const std::string& text) {
  return nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false).is_object();
}

// The environments must be evenly divisible among several ranks.
void validate_ranks(const Config& config) {
  if (config.ranks == 1) return;
  require(algo_of(config).uses_ranks(),
          "ranks: found {}, but '{}' learns in one process: expected 1", config.ranks, config.algo);
  require(config.sampler.envs % config.ranks == 0,
          "sampler.envs: found {}, which {} ranks cannot share evenly; choose a multiple",
          config.sampler.envs, config.ranks);
}

// Settings that change nothing are refused.
void validate_agent(const Config& config) {
  if (algo_of(config).uses_agent_options()) return;
  for (const auto& [key, usual, now] : changed_settings(Config(), config))
    require(!key.starts_with("agent."),
            "{}: found {}, but algo '{}' does not use it; set it to its default, {}", key, now,
            config.algo, usual);
}

}  // namespace

bool is_builtin_model(const std::string& name) {
  return std::ranges::find(kBuiltinModels, name) != std::end(kBuiltinModels);
}

void validate_sampling(const Config& config) {
  auto copy = config;
  check_ranges(options_of(copy));
  require(!config.env_id.empty(), "env.id is missing: name an environment (`shoal list envs`)");
  validate_agent(config);
  require(config.agent.act_precision == Precision::kFloat32 ||
              (config.model.name == "nature-cnn" && config.model.memory == MemoryKind::kNone),
          "agent.act_precision: found bf16, which only nature-cnn without a memory supports; set "
          "model.name to nature-cnn (found '{}'), or act_precision to float32",
          config.model.name);
  require(config.env.gymnasium.kwargs.empty() || is_json_object(config.env.gymnasium.kwargs),
          "gymnasium.kwargs: found '{}', expected a JSON object such as {{\"gravity\": 5.0}}",
          one_line(config.env.gymnasium.kwargs));
  require(config.env.resize.size() <= 2,
          "env.resize: found {} numbers, expected a height and a width, or one side",
          config.env.resize.size());
  for (const auto& entry : config.env.info) parse_info(entry);
  parse_device(config.device);
  validate_ranks(config);
  validate_sampler(config.sampler, worker_count(config), config.ranks);
  validate_async(config);
  require(config.sampler.preempt_share == 1 || !is_off_policy(config),
          "sampler.preempt_share: found {}, but algo '{}' learns from a replay, which takes whole "
          "rollouts only; choose an on-policy algorithm",
          config.sampler.preempt_share, config.algo);
  validate_model(config.model);
}

void validate(const Config& config) {
  validate_sampling(config);
  const auto& algo = algo_of(config);
  const auto annealed = algo.annealed_to_0();
  require(
      config.schedule_steps == 0 || config.steps <= config.schedule_steps || annealed.empty(),
      "steps: found {}, but {}.{} reaches 0 after {} (schedule_steps); give schedule_steps = {} "
      "too",
      config.steps, config.algo, annealed, config.schedule_steps, config.steps);
  if (is_off_policy(config)) validate_replay_ratio(config);
  algo.check(run_options(config));
}

}  // namespace shoal
