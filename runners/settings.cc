#include "runners/settings.h"

#include <utility>

#include "runners/limits.h"
#include "shoal/distributed/process_group.h"
#include "shoal/ipc/trajectory_ring.h"
#include "shoal/ipc/worker_group.h"

namespace shoal {

constexpr std::pair<const char*, OnDeath> kOnDeaths[] = {{"fail", OnDeath::kFail},
                                                         {"restart", OnDeath::kRestart}};
constexpr std::pair<const char*, StaleRollouts> kStaleRollouts[] = {{"use", StaleRollouts::kUse},
                                                                    {"drop", StaleRollouts::kDrop}};
constexpr std::pair<const char*, MemoryKind> kMemories[] = {
    {"none", MemoryKind::kNone}, {"lstm", MemoryKind::kLstm}, {"gru", MemoryKind::kGru}};
constexpr std::pair<const char*, RankBackend> kRankBackends[] = {{"auto", RankBackend::kAuto},
                                                                 {"tcp", RankBackend::kTcp},
                                                                 {"mpi", RankBackend::kMpi},
                                                                 {"nccl", RankBackend::kNccl}};

static const auto& names_of(OnDeath) { return kOnDeaths; }
static const auto& names_of(StaleRollouts) { return kStaleRollouts; }
static const auto& names_of(MemoryKind) { return kMemories; }
static const auto& names_of(RankBackend) { return kRankBackends; }

namespace {

OptionList general_options(Config& c) {
  OptionList list;
  list.add("base", c.base, "preset that the run started from");
  list.add("algo", c.algo, "learning algorithm (`shoal list algos`)");
  list.add("steps", c.steps, "total agent steps, over all environments", kCount);
  list.add("schedule_steps", c.schedule_steps,
           "length of the schedules, in steps; 0: `steps` of a new run");
  list.add("stop_return", c.stop_return,
           "stop when the mean score of the last 100 episodes reaches this; off: never",
           kAnyNumber);
  list.add(
      "init_from", c.init_from,
      "run folder, checkpoint, .safetensors file or zoo:NAME from whose weights this run starts");
  list.add("checkpoint_seconds", c.checkpoint_seconds, "least seconds between checkpoints",
           above_0());
  list.add("checkpoint_steps", c.checkpoint_steps,
           "steps between checkpoints, which also reset environments that cannot be saved; 0: time "
           "only");
  list.add("keep_checkpoints", c.keep_checkpoints, "number of checkpoints to keep", kCount);
  list.add("log_steps", c.log_steps, "steps between rows of progress.csv; 0: one row per rollout");
  list.add("table_seconds", c.table_seconds,
           "seconds between tables of all metrics on the console; 0: no tables");
  list.add("tensorboard", c.tensorboard, "also write the rows of progress.csv for TensorBoard");
  list.add("eval_steps", c.eval_steps,
           "steps between evaluations, during which training pauses; 0: no evaluation");
  list.add("eval_episodes", c.eval_episodes, "complete greedy episodes per evaluation",
           within(1, kMostNumber));
  list.add("live_eval_seconds", c.live_eval_seconds,
           "seconds between evaluations in a separate process during training; 0: no evaluation");
  list.add("seed", c.seed, "seed of environments, actions, initial weights and minibatches",
           within(0, 0x1p63));
  list.add("device", c.device,
           "device of learning and acting (parallel-cpu acts on the CPU): cpu, cuda or cuda:N");
  list.add("threads", c.threads, "threads of tensor operations per rank; 0: one per core",
           within(0, 4096));
  list.add("stop_grace", c.stop_grace,
           "seconds for completing a rollout after SIGINT, SIGTERM or SIGHUP", within(0, 1e6));
  list.add(
      "ranks", c.ranks,
      "processes of data-parallel training, which share environments, workers and cores evenly",
      within(1, kMostRanks));
  list.add("rank_timeout", c.rank_timeout, "seconds that a rank waits for another before it fails",
           above_0(1e6));
  list.add("rank_backend", c.rank_backend,
           "communication between a launcher's processes: auto | tcp | mpi | nccl (gradients by "
           "NCCL; auto selects it if each rank has a GPU)");
  return list;
}

OptionList env_options(Config& c) {
  OptionList env("env"), atari("atari"), gymnasium("gymnasium");
  env.add("id", c.env_id, "name of the environment (`shoal list envs`)");
  env.add("observation", c.env.observation,
          "fields of the observation that the agent sees, e.g. [\"image\"]; empty: all");
  env.add("grayscale", c.env.grayscale, "pictures in grey instead of colour");
  env.add("resize", c.env.resize,
          "height and width to which pictures are shrunk, e.g. [84, 84]; empty: their own",
          within(1, 4096));
  env.add("flatten", c.env.flatten, "pictures and tables become vectors");
  env.add("observation_indices", c.env.observation_indices,
          "elements of the observation that the agent sees, e.g. [0, 2]; empty: all",
          within(0, kMostNumber));
  env.add("stack", c.env.stack, "newest observations that form one", within(1, 256));
  env.add("info", c.env.info,
          "infos reported for each episode: \"is_success\", its last value, or \"fuel:sum\", "
          "\"speed:max\"");
  env.add("action_repeat", c.env.action_repeat,
          "environment steps per agent step, with the same action", within(1, 1e6));
  env.add("time_limit", c.env.time_limit,
          "agent steps after which an episode is truncated, if the environment's own limit is not "
          "earlier; "
          "0: its own limit only");
  env.add("reward_scale", c.env.reward_scale, "factor applied to rewards", kAnySign);
  env.add("normalize_reward", c.env.normalize_reward,
          "divide rewards by the running standard deviation of the return, discounted by 0.99");
  env.add("reward_clip", c.env.reward_clip,
          "clip rewards to this absolute value, after scaling and normalization; 0: no clipping");
  auto& a = c.env.atari;
  atari.add("frame_skip", a.frame_skip, "frames per agent step", within(1, 1000));
  atari.add("noop_max", a.noop_max, "largest number of no-ops at the start of an episode",
            within(0, 1e6));
  atari.add("fire_on_reset", a.fire_on_reset,
            "press FIRE after a reset, in games that wait for it");
  atari.add("episodic_life", a.episodic_life, "a lost life ends the episode for the agent");
  atari.add("sticky", a.sticky, "probability that the previous action is repeated (sticky actions)",
            kShare);
  atari.add("clip_reward", a.clip_reward, "clip rewards to their sign");
  atari.add("full_action_set", a.full_action_set,
            "use all 18 actions instead of the minimal set of the game");
  atari.add("max_frames", a.max_frames, "frames after which an episode is truncated", kCount);
  atari.add("stack", a.stack, "frames stacked in one observation", within(1, 256));
  atari.add("screen", a.screen, "height and width of a frame, in pixels", within(16, 160));
  atari.add("rgb", a.rgb, "colour frames instead of grayscale");
  atari.add(
      "emulator", a.emulator,
      "shoal: ALE with a processor and video chip of this project's | ale: ALE as it is; both "
      "give the same results");
  gymnasium.add("kwargs", c.env.gymnasium.kwargs,
                "keyword arguments of gymnasium.make, as a JSON object", within(0, 60'000));
  gymnasium.add("wrappers", c.env.gymnasium.wrappers,
                "wrappers in Python, the innermost first, e.g. "
                "[\"minigrid.wrappers.ImgObsWrapper\", \"FrameStackObservation(stack_size=4)\"]");
  gymnasium.add(
      "vector", c.env.gymnasium.vector,
      "one vector environment per worker: the id's vector_entry_point, or what a callable "
      "returns (gymnasium:module:callable)");
  gymnasium.add(
      "python", c.env.gymnasium.python,
      "Python interpreter; empty: $SHOAL_PYTHON, that of the active environment, or of the build");
  env.append(std::move(atari));
  env.append(std::move(gymnasium));
  return env;
}

OptionList sampler_options(Config& c) {
  OptionList sampler("sampler"), async("async");
  auto& s = c.sampler;
  sampler.add("kind", s.kind,
              "auto: measured at the start; parallel-gpu if asynchronous or on a GPU | "
              "serial | parallel-cpu: workers step and act | "
              "parallel-gpu: workers step, the agent process acts in batches, on a GPU or the CPU");
  sampler.add("horizon", s.horizon, "steps of each environment in one rollout", within(1, 0x1p40));
  sampler.add("envs", s.envs, "number of environments", within(1, 0x1p40));
  sampler.add("workers", s.workers,
              "processes that step the environments; 0: chosen with sampler.kind = auto, otherwise "
              "one per core, at most one per environment (asynchronous parallel-cpu: two, or one)",
              within(0, 4096));
  sampler.add("groups", s.groups,
              "groups of environments; 2: one half is stepped while the agent acts for the other; "
              "1 with sampler.kind = auto: chosen if the samples stay the same",
              within(1, 2));
  sampler.add(
      "dynamic_batch", s.dynamic_batch,
      "act as soon as this many environments, in whole workers, are ready (parallel-gpu); 0: act "
      "for all of them in lock-step");
  sampler.add("dynamic_batch_timeout_us", s.dynamic_batch_timeout_us,
              "act at the latest this many microseconds after the first environment is ready",
              within(0, kMostNumber));
  sampler.add(
      "preempt_share", s.preempt_share,
      "with sampler.dynamic_batch: end a rollout early once this fraction of the environments "
      "has filled its part; 1: never",
      above_0(1));
  sampler.add("mid_batch_reset", s.mid_batch_reset,
              "reset an environment when its episode ends; false: when the rollout ends");
  sampler.add("decorrelation", s.decorrelation,
              "largest number of random steps that each environment takes before sampling",
              within(0, 1e6));
  sampler.add("step_limit", s.step_limit, "seconds after which a worker in a step counts as dead");
  sampler.add("reset_limit", s.reset_limit,
              "seconds after which a worker in a reset counts as dead");
  sampler.add("on_death", s.on_death,
              "if a worker dies: fail (end the run) | restart (the worker)");
  sampler.add("pin", s.pin, "pin each worker to a core");
  sampler.add("cores", s.cores,
              "cores for pinned workers, assigned in turn; empty: all allowed cores",
              within(0, 1e6));
  sampler.add("asynchronous", c.asynchronous, "sample continuously while the agent learns");
  auto& a = c.async;
  async.add("slots", a.slots, "rollouts in memory; 0: one per writer plus two", within(0, 10'000));
  async.add("max_lag", a.max_lag,
            "largest policy lag of a rollout, in updates, with async.stale = drop",
            within(0, 0x1p63));
  async.add("stale", a.stale,
            "treatment of rollouts with a larger lag than async.max_lag: use | drop");
  async.add("drain", a.drain,
            "once no slot is free, pause sampling until all waiting rollouts are used");
  async.add("publish_interval", a.publish_interval,
            "updates between publications of the policy to the sampler", kCount);
  sampler.append(std::move(async));
  return sampler;
}

OptionList agent_options(Config& c) {
  OptionList agent("agent"), model("model");
  agent.add("act_precision", c.agent.act_precision,
            "precision of acting on the CPU: float32 | bf16");
  agent.add("initial_std", c.agent.initial_std,
            "initial standard deviation of continuous actions, in half-widths of their bounds",
            above_0());
  agent.add("network_std", c.agent.network_std,
            "the network outputs the standard deviations; false: they are parameters");
  agent.add("squash", c.agent.squash, "bound continuous actions by tanh instead of clipping");
  agent.add("normalize_observation", c.agent.normalize_observation,
            "normalize observations to mean 0 and standard deviation 1");
  model.add("name", c.model.name,
            "network: mlp | nature-cnn (one picture) | multi-input (pictures and other fields) | "
            "auto: by the observation");
  model.add("hidden", c.model.hidden, "units of each hidden layer (mlp, multi-input, critics)",
            within(1, 0x1p32));
  model.add("shared_trunk", c.model.shared_trunk,
            "policy and value share the hidden layers (mlp, multi-input)");
  model.add("cnn", c.model.cnn,
            "convolutions (multi-input): nature | impala (residual) | layers | auto: by the size "
            "of the picture");
  model.add("cnn_layers", c.model.cnn_layers,
            "filters, size and stride of each convolution, e.g. [32, 3, 1, 64, 3, 2]",
            within(1, 65'536));
  model.add(
      "precision", c.model.precision,
      "precision of learning: float32 | bf16 (nature-cnn, multi-input; float32 on CPUs where that "
      "is not faster)");
  model.add(
      "initial_weights", c.model.initial_weights,
      "orthogonal | uniform: within 1 / sqrt(inputs), as torch.nn has them (always used by the "
      "MLPs of sac, td3 and ddpg)");
  model.add("memory", c.model.memory, "recurrent layer after a shared trunk: none | lstm | gru");
  model.add("memory_size", c.model.memory_size, "units of the recurrent layer", within(1, 1e6));
  model.add("memory_sees_previous", c.model.memory_sees_previous,
            "the recurrent layer also reads the previous action and reward");
  agent.append(std::move(model));
  return agent;
}

}  // namespace

OptionList options_of(Config& config) {
  auto list = general_options(config);
  list.append(env_options(config));
  list.append(sampler_options(config));
  list.append(agent_options(config));
  list.append(describe(config.off_policy));
  list.append(describe(config.replay));
  for (const auto& algo : config.algos) list.append(algo->options());
  return list;
}

std::vector<std::string> sampler_names() {
  std::vector<std::string> names;
  for (const auto& [name, kind] : kSamplerKindNames) names.emplace_back(name);
  return names;
}

}  // namespace shoal
