#include <fmt/format.h>

#include <algorithm>

#include "algos/check_options.h"
#include "runners/known.h"
#include "runners/off_policy_parts.h"
#include "shoal/core/error.h"
#include "shoal/runners/config.h"
#include "shoal/runners/device.h"
#include "src/core/option_checks.h"

namespace shoal {
namespace {

// Whether this machine has them is seen when workers are bound to them.
void validate_cores(const SamplerOptions& s) {
  constexpr std::int64_t kMost = 1 << 16;  // no machine has more
  for (const auto core : s.cores)
    require(core >= 0 && core < kMost, "sampler.cores: found {}, expected numbers from 0 to {}",
            core, kMost - 1);
}

void validate_sampler(const SamplerOptions& s) {
  require_at_least<std::int64_t>("sampler.horizon", s.horizon, 1);
  require_at_least<std::int64_t>("sampler.envs", s.envs, 1);
  require_at_least("sampler.workers", s.workers, 1);
  require_within("sampler.groups", s.groups, 1, std::min<double>(2, static_cast<double>(s.envs)));
  require_at_least<std::int64_t>("sampler.decorrelation", s.decorrelation, 0);
  require(
      s.kind == SamplerKind::kSerial || s.workers <= s.envs,
      "sampler.workers: {} workers cannot share {} environments; give at most one worker to each",
      s.workers, s.envs);
  require_within("sampler.batch", static_cast<double>(s.batch), 0, static_cast<double>(s.envs));
  require_at_least<std::int64_t>("sampler.batch_wait_us", s.batch_wait_us, 0);
  require(
      s.batch == 0 || (s.kind == SamplerKind::kParallelGpu && s.groups == 1),
      "sampler.batch: found {}; only sampler.kind = parallel-gpu acts for whoever is there, and "
      "with sampler.groups = 1",
      s.batch);
  require(s.preempt_share > 0 && s.preempt_share <= 1,
          "sampler.preempt_share: found {}, expected above 0 and at most 1", s.preempt_share);
  require(s.preempt_share == 1 || s.batch > 0,
          "sampler.preempt_share: found {}; it needs sampler.batch, so that workers need not wait "
          "for each other",
          s.preempt_share);
  require(s.envs <= (std::int64_t{1} << 40) / s.horizon,
          "sampler.envs: {} environments times {} steps is more than any machine holds", s.envs,
          s.horizon);
  validate_cores(s);
}

void validate_async(const Config& config) {
  const auto& a = config.async;
  const auto& s = config.sampler;
  require(a.slots == 0 || a.slots >= 2, "async.slots: found {}, expected 0, or at least 2",
          a.slots);
  require_at_least<std::int64_t>("async.max_lag", a.max_lag, 0);
  require_at_least<std::int64_t>("async.publish_interval", a.publish_interval, 1);
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
  require(s.envs % s.workers == 0,
          "sampler.envs: {} environments cannot be shared evenly by {} workers, as "
          "sampler.asynchronous demands of parallel-cpu",
          s.envs, s.workers);
  require(s.groups <= s.envs / s.workers,
          "sampler.groups: {} groups cannot share the {} environments of each worker, as "
          "sampler.asynchronous demands of parallel-cpu",
          s.groups, s.envs / s.workers);
  require(!is_off_policy(config) || s.workers == 1,
          "sampler.workers: found {}, expected 1: a replay takes windows of all environments, and "
          "those of parallel-cpu with sampler.asynchronous are of one worker's; or choose "
          "sampler.kind = parallel-gpu",
          s.workers);
}

void validate_ppo(const Config& config) {
  const auto& p = config.ppo;
  require_at_least("ppo.epochs", p.epochs, 1);
  require_at_least("ppo.minibatches", p.minibatches, 1);
  require_at_least("ppo.accumulate", p.accumulate, 1);
  require_at_least("ppo.slices", p.slices, 0);
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
  require(p.clip > 0, "ppo.clip: found {}, expected a number above 0", p.clip);
  require_at_least("ppo.value_clip", p.value_clip, 0.0);
  require_at_least("ppo.target_kl", p.target_kl, 0.0);
}

void validate_dqn(const DqnOptions& d, const QAgentOptions& q) {
  require_at_least<std::int64_t>("dqn.atoms", q.atoms, 2);
  require(q.v_min < q.v_max, "dqn.v_min: found {}, expected less than dqn.v_max, {}", q.v_min,
          q.v_max);
  require_above_0("dqn.noise", q.noise);
  check_q_options("dqn", d);
  check_betas("dqn", d);
  require_within("dqn.target_share", d.target_share, 1e-9, 1);
}

void validate_r2d1(const Config& config) {
  const auto& r = config.r2d1;
  check_q_options("r2d1", r);
  require_at_least<std::int64_t>("r2d1.burn_in", config.r2d1_burn_in, 0);
  require_at_least<std::int64_t>("r2d1.length", config.r2d1_length, 1);
  require_above_0("r2d1.value_scale", r.value_scale);
  require_within("r2d1.priority_eta", r.priority_eta, 0, 1);
  require_within("r2d1.beta", r.beta, 0, 1);
}

// What SAC, TD3 and DDPG have, each in a table of its own name.
template <class Options>
void validate_control(const std::string& algo, const Options& o) {
  require_at_least<std::int64_t>(algo + ".batch", o.batch, 1);
  require_within(algo + ".tau", o.tau, 0, 1);
  check_betas(algo, o);
}

void validate_sac(const SacOptions& s) {
  validate_control("sac", s);
  require_above_0("sac.learning_rate", s.learning_rate);
  require_above_0("sac.alpha", s.alpha);
}

// What TD3 and DDPG have.
template <class Options>
void validate_deterministic(const std::string& algo, const Options& o) {
  validate_control(algo, o);
  require_above_0(algo + ".critic_rate", o.critic_rate);
  require_above_0(algo + ".policy_rate", o.policy_rate);
  require_at_least(algo + ".exploration_noise", o.exploration_noise, 0.0);
}

void validate_td3(const Td3Options& t) {
  validate_deterministic("td3", t);
  require_at_least<std::int64_t>("td3.policy_interval", t.policy_interval, 1);
  require_at_least("td3.target_noise", t.target_noise, 0.0);
  require_at_least("td3.target_clip", t.target_clip, 0.0);
}

void validate_replay(const Config& config) {
  require_at_least<std::int64_t>("off_policy.learning_starts", config.off_policy.learning_starts,
                                 0);
  require_above_0("off_policy.replay_ratio", config.off_policy.replay_ratio);
  const auto& r = config.replay;
  const auto window = config.sampler.envs * config.sampler.horizon;
  require(r.size >= window,
          "replay.size: found {}, expected at least the {} steps of a window (sampler.horizon x "
          "sampler.envs)",
          r.size, window);
  require_within("replay.n_step", r.n_step, 1, 255);
  require_within("replay.discount", r.discount, 0, 1);
  require_at_least("replay.alpha", r.alpha, 0.0);
  const bool sequences = config.algo == "r2d1";
  require_at_least("replay.slices", config.replay_slices, 0);
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
  for (const auto units : model.hidden) require_at_least<std::int64_t>("model.hidden", units, 1);
  require_at_least<std::int64_t>("model.memory_size", model.memory_size, 1);
  require(model.memory == MemoryKind::kNone || model.name == "mlp" || model.name == "nature-cnn",
          "model.memory: found a memory for model '{}'; only mlp and nature-cnn get one this way",
          model.name);
  require(model.precision == Precision::kFloat32 || model.name == "nature-cnn",
          "model.precision: found bf16, but model '{}' learns in float32; only nature-cnn has both",
          model.name);
}

// What several ranks must share evenly.
void validate_ranks(const Config& config) {
  require_within("ranks", config.ranks, 1, 1024);
  require_above_0("rank_timeout", config.rank_timeout);
  require_within("rank_timeout", config.rank_timeout, 0, 1e6);
  if (config.ranks == 1) return;
  require(config.sampler.envs % config.ranks == 0,
          "sampler.envs: found {}, which {} ranks cannot share evenly; choose a multiple",
          config.sampler.envs, config.ranks);
}

}  // namespace

void validate(const Config& config) {
  const bool r2d1 = config.algo == "r2d1";
  require_known("algo", config.algo, algo_names());
  require(!config.env_id.empty(), "env.id is missing: name an environment (`shoal list envs`)");
  require_at_least<std::int64_t>("steps", config.steps, 1);
  require_at_least<std::int64_t>("schedule_steps", config.schedule_steps, 0);
  require_at_least("threads", config.threads, 0);
  require(config.threads <= 4096, "threads: found {}, expected at most 4096", config.threads);
  require(config.checkpoint_seconds > 0, "checkpoint_seconds: found {}, expected a number above 0",
          config.checkpoint_seconds);
  require_at_least<std::int64_t>("checkpoint_steps", config.checkpoint_steps, 0);
  require_at_least<std::int64_t>("keep_checkpoints", config.keep_checkpoints, 1);
  require_at_least<std::int64_t>("log_steps", config.log_steps, 0);
  require_at_least("table_seconds", config.table_seconds, 0.0);
  require_at_least<std::int64_t>("eval_steps", config.eval_steps, 0);
  require_at_least<std::int64_t>("eval_episodes", config.eval_episodes, 1);
  require_at_least<double>("live_eval_seconds", config.live_eval_seconds, 0);
  require_within("stop_grace", config.stop_grace, 0, 1e6);
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
  parse_device(config.device);
  validate_sampler(config.sampler);
  validate_ranks(config);
  validate_async(config);
  require(config.sampler.preempt_share == 1 || !is_off_policy(config),
          "sampler.preempt_share: found {}, and algo '{}' learns from a replay, which takes whole "
          "windows only; choose ppo, a2c or impala",
          config.sampler.preempt_share, config.algo);
  validate_model(config.model);
  require_above_0("agent.initial_std", config.agent.initial_std);
  check_options("ppo", config.ppo);
  check_options("a2c", config.a2c);
  require_at_least("a2c.accumulate", config.a2c.accumulate, 1);
  check_options("impala", config.impala);
  validate_ppo(config);
  validate_dqn(config.dqn, config.q);
  validate_r2d1(config);
  validate_sac(config.sac);
  validate_td3(config.td3);
  validate_deterministic("ddpg", config.ddpg);
  if (is_off_policy(config)) validate_replay(config);
}

}  // namespace shoal
