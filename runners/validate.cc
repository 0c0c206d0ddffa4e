#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "runners/known.h"
#include "runners/off_policy_parts.h"
#include "runners/setting_range.h"
#include "shoal/core/error.h"
#include "shoal/core/text.h"
#include "shoal/runners/config.h"
#include "shoal/runners/device.h"
#include "src/core/option_checks.h"

namespace shoal {
namespace {

// Environments times steps. The product with the size of an observation is checked where memory is
// planned.
constexpr std::int64_t kMostCells = std::int64_t{1} << 40;

void validate_sampler(const SamplerOptions& s, int workers) {
  require(s.groups <= s.envs, "sampler.groups: {} groups cannot share {} environments", s.groups,
          s.envs);
  require(
      s.kind == SamplerKind::kSerial || workers <= s.envs,
      "sampler.workers: {} workers cannot share {} environments; give at most one worker to each",
      workers, s.envs);
  require_within("sampler.batch", static_cast<double>(s.batch), 0, static_cast<double>(s.envs));
  require(
      s.batch == 0 || (s.kind == SamplerKind::kParallelGpu && s.groups == 1),
      "sampler.batch: found {}; only sampler.kind = parallel-gpu acts for whoever is there, and "
      "with sampler.groups = 1",
      s.batch);
  require(s.preempt_share == 1 || s.batch > 0,
          "sampler.preempt_share: found {}; it needs sampler.batch, so that workers need not wait "
          "for each other",
          s.preempt_share);
  require(s.envs <= kMostCells / s.horizon,
          "sampler.envs: {} environments times {} steps (sampler.horizon) is more than any machine "
          "holds",
          s.envs, s.horizon);
}

void validate_async(const Config& config) {
  const auto& a = config.async;
  const auto& s = config.sampler;
  require(a.slots != 1, "async.slots: found 1, expected 0, or at least 2");
  require(
      !config.asynchronous || a.too_old != TooOld::kDrop || !is_off_policy(config),
      "async.too_old: found drop, and algo '{}' learns from a replay, which takes every window; "
      "choose use",
      config.algo);
  require(a.too_old != TooOld::kDrop || a.max_lag >= a.publish_interval - 1,
          "async.max_lag: found {}, expected at least async.publish_interval - 1 = {}: with "
          "async.too_old = drop every rollout between two publications would be dropped",
          a.max_lag, a.publish_interval - 1);
  require(s.on_death == OnDeath::kFail || !config.asynchronous || s.kind != SamplerKind::kSerial,
          "sampler.on_death: found restart; with sampler.asynchronous, serial does not offer it");
  if (!config.asynchronous || s.kind != SamplerKind::kParallelCpu) return;
  const int workers = worker_count(config);
  require(s.envs % workers == 0,
          "sampler.envs: {} environments cannot be shared evenly by {} workers, as "
          "sampler.asynchronous demands of parallel-cpu",
          s.envs, workers);
  require(s.groups <= s.envs / workers,
          "sampler.groups: {} groups cannot share the {} environments of each worker, as "
          "sampler.asynchronous demands of parallel-cpu",
          s.groups, s.envs / workers);
  require(!is_off_policy(config) || workers == 1,
          "sampler.workers: found {}, expected 1: a replay takes windows of all environments, and "
          "those of parallel-cpu with sampler.asynchronous are of one worker's; or choose "
          "sampler.kind = parallel-gpu",
          workers);
}

void validate_ppo(const Config& config) {
  const auto& p = config.ppo;
  if (config.algo == "ppo") {
    const int slices = p.slices > 0 ? p.slices : std::max(1, config.ranks);
    require(slices % std::max(1, config.ranks) == 0 && config.sampler.envs % slices == 0,
            "ppo.slices: found {}, expected a multiple of ranks, {}, that divides sampler.envs, {}",
            slices, config.ranks, config.sampler.envs);
    const auto envs = config.sampler.envs / slices;
    const auto of_a_slice = slices > 1 ? fmt::format(" of each of {} slices", slices) : "";
    require(p.minibatches <= config.sampler.horizon * envs,
            "ppo.minibatches: {} minibatches cannot share {} samples{} "
            "(sampler.horizon x sampler.envs)",
            p.minibatches, config.sampler.horizon * envs, of_a_slice);
    require((config.model.memory == MemoryKind::kNone && !p.vtrace) || p.minibatches <= envs,
            "ppo.minibatches: {} minibatches cannot share {} environments{} (sampler.envs): with a "
            "memory, or ppo.vtrace, each learns from whole sequences",
            p.minibatches, envs, of_a_slice);
  }
  require(!p.vtrace || p.normalize_advantage != NormalizeAdvantage::kWindow,
          "ppo.normalize_advantage: found window, and ppo.vtrace finds advantages minibatch by "
          "minibatch; choose minibatch or none");
  require(p.accumulate == 1 || !p.vtrace || p.normalize_advantage == NormalizeAdvantage::kNone,
          "ppo.accumulate: found {}, but ppo.vtrace finds advantages piece by piece, and "
          "ppo.normalize_advantage wants all of a minibatch; choose none, or 1 piece",
          p.accumulate);
}

// The number of updates is counted in 64 bits, those of one window in 32.
void validate_replay_ratio(const Config& config) {
  const double ratio = config.off_policy.replay_ratio;
  const double window = ratio * static_cast<double>(config.sampler.envs) *
                        static_cast<double>(config.sampler.horizon);
  require(window <= 1e9 && ratio * static_cast<double>(config.steps) <= 9e18,
          "off_policy.replay_ratio: found {}, which is more updates than can be counted, of {} "
          "environments times {} steps (sampler.horizon), or of {} steps altogether; choose a "
          "smaller one",
          ratio, config.sampler.envs, config.sampler.horizon, config.steps);
}

void validate_replay(const Config& config) {
  validate_replay_ratio(config);
  const auto& r = config.replay;
  const auto window = config.sampler.envs * config.sampler.horizon;
  require(r.size >= window,
          "replay.size: found {}, expected at least the {} steps of a window (sampler.horizon x "
          "sampler.envs)",
          r.size, window);
  const bool sequences = config.algo == "r2d1";
  require(config.replay_slices == 0 || !sequences,
          "replay.slices: found {}; algo 'r2d1' has one for each rank: expected 0",
          config.replay_slices);
  require(config.replay_slices <= 1 || !config.replay_shared,
          "replay.slices: found {}; ranks that share a replay (replay.shared) draw from all "
          "environments alike: expected 0",
          config.replay_slices);
  const int slices =
      config.replay_slices > 0 && !config.replay_shared ? config.replay_slices : config.ranks;
  require(
      slices % config.ranks == 0 && config.sampler.envs % slices == 0,
      "replay.slices: found {}, expected a multiple of ranks, {}, that divides sampler.envs, {}",
      slices, config.ranks, config.sampler.envs);
  require(r.size % config.ranks == 0,
          "replay.size: found {}, which {} ranks cannot share evenly; choose a multiple", r.size,
          config.ranks);
  const auto batch = sequences ? config.r2d1.batch : off_policy_batch(config);
  require(batch % slices == 0,
          "{}.batch: found {}, which {} slices (replay.slices, or ranks) cannot share evenly; "
          "choose a multiple",
          config.algo, batch, slices);
}

bool anneals(const Config& config) {
  return (config.algo == "ppo" && config.ppo.anneal_learning_rate) ||
         (config.algo == "a2c" && config.a2c.anneal_learning_rate) ||
         (config.algo == "impala" && config.impala.anneal_learning_rate) ||
         (config.algo == "dqn" && config.dqn.anneal_learning_rate) ||
         (config.algo == "r2d1" && config.r2d1.anneal_learning_rate) ||
         (config.algo == "ddpg" && config.ddpg.anneal_learning_rate) ||
         (config.algo == "td3" && config.td3.anneal_learning_rate) ||
         (config.algo == "sac" && config.sac.anneal_learning_rate);
}

void validate_model(const ModelOptions& model) {
  require_known("model (model.name)", model.name, model_names());
  require(model.memory == MemoryKind::kNone || model.name == "mlp" || model.name == "nature-cnn",
          "model.memory: found a memory for model '{}'; only mlp and nature-cnn get one this way",
          model.name);
  require(model.precision == Precision::kFloat32 || model.name == "nature-cnn",
          "model.precision: found bf16, but model '{}' learns in float32; only nature-cnn has both",
          model.name);
}

bool is_json_object(const std::string& text) {
  return nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false).is_object();
}

// What several ranks must share evenly.
void validate_ranks(const Config& config) {
  if (config.ranks == 1) return;
  require(config.sampler.envs % config.ranks == 0,
          "sampler.envs: found {}, which {} ranks cannot share evenly; choose a multiple",
          config.sampler.envs, config.ranks);
}

}  // namespace

void validate(const Config& config) {
  const bool r2d1 = config.algo == "r2d1";
  check_ranges(config);
  require_known("algo", config.algo, algo_names());
  require(!config.env_id.empty(), "env.id is missing: name an environment (`shoal list envs`)");
  require(
      config.schedule_steps == 0 || config.steps <= config.schedule_steps || !anneals(config),
      "steps: found {}, but schedules end after {} (schedule_steps), and nothing is learned at a "
      "rate of 0; give schedule_steps = {} too",
      config.steps, config.schedule_steps, config.steps);
  require(
      config.agent.act_precision == Precision::kFloat32 ||
          (config.model.name == "nature-cnn" && config.model.memory == MemoryKind::kNone),
      "agent.act_precision: found bf16, but model '{}' acts in float32; only nature-cnn has both, "
      "and without a memory",
      config.model.name);
  require(config.model.memory == MemoryKind::kNone || !is_off_policy(config) || r2d1,
          "model.memory: found a memory, and algo '{}' learns from single steps; choose r2d1, ppo, "
          "a2c or impala",
          config.algo);
  require(config.model.memory != MemoryKind::kNone || !r2d1,
          "model.memory: found none, and algo 'r2d1' needs one: lstm or gru");
  require(config.env.gymnasium.kwargs.empty() || is_json_object(config.env.gymnasium.kwargs),
          "gymnasium.kwargs: found '{}', expected a JSON object such as {{\"gravity\": 5.0}}",
          one_line(config.env.gymnasium.kwargs));
  parse_device(config.device);
  validate_sampler(config.sampler, worker_count(config));
  validate_ranks(config);
  validate_async(config);
  require(config.sampler.preempt_share == 1 || !is_off_policy(config),
          "sampler.preempt_share: found {}, and algo '{}' learns from a replay, which takes whole "
          "windows only; choose ppo, a2c or impala",
          config.sampler.preempt_share, config.algo);
  validate_model(config.model);
  validate_ppo(config);
  require(config.q.v_min < config.q.v_max, "dqn.v_min: found {}, expected less than dqn.v_max, {}",
          config.q.v_min, config.q.v_max);
  if (is_off_policy(config)) validate_replay(config);
}

}  // namespace shoal
