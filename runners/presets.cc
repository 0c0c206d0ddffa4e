#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <limits>
#include <system_error>
#include <utility>

#include "shoal/core/error.h"
#include "shoal/core/text.h"
#include "shoal/core/worker_group.h"
#include "shoal/runners/config.h"

namespace shoal {
namespace {

Config cartpole_ppo() {
  Config c;
  c.env_id = "CartPole-v1";
  c.steps = c.schedule_steps = 120'000;
  c.stop_return = 475;
  c.threads = 1;  // the network is too small to share
  c.sampler = {.horizon = 128, .envs = 32, .workers = 1};
  c.model = {.name = "mlp", .hidden = {64, 64}};
  c.ppo = {.learning_rate = 3e-3,
           .discount = 0.99,
           .gae_lambda = 0.98,
           .epochs = 4,
           .minibatches = 16,
           .clip = 0.25,
           .entropy_coef = 0,
           .max_grad_norm = 1,
           .anneal_clip = true};
  return c;
}

// What the other tasks of classic control share. An environment this small is stepped faster than
// another process is told to.
Config classic_control(const std::string& id, std::int64_t steps) {
  Config c;
  c.env_id = id;
  c.steps = c.schedule_steps = steps;
  c.threads = 1;
  c.sampler = {.kind = SamplerKind::kSerial, .horizon = 128, .envs = 16};
  c.model = {.name = "mlp", .hidden = {64, 64}};
  c.ppo = {.learning_rate = 1e-3,
           .minibatches = 8,
           .clip = 0.2,
           .entropy_coef = 0,
           .max_grad_norm = 1,
           .anneal_clip = true};
  return c;
}

Config cartpole_a2c() {
  Config c = classic_control("CartPole-v1", 500'000);
  c.algo = "a2c";
  c.stop_return = 475;
  c.sampler.horizon = 16;
  c.a2c = {.learning_rate = 2e-3, .gae_lambda = 0.95, .entropy_coef = 0};
  return c;
}

// One process steps and acts, this one learns from rollouts that older policies made. While no pole
// falls, gradients are a hundredth of what they are otherwise, and Adam's steps after the next fall
// undo what was learned, unless returns are small and its epsilon is large. The run ends with its
// learning rate: a policy that has just reached 475 loses it again in one run of twenty.
Config cartpole_appo() {
  Config c = cartpole_ppo();
  c.env.reward_scale = 0.05;
  c.steps = c.schedule_steps = 500'000;
  c.stop_return = std::numeric_limits<double>::infinity();
  c.log_steps = 10'000;
  c.sampler = {.kind = SamplerKind::kParallelCpu, .horizon = 32, .envs = 64, .workers = 1};
  c.asynchronous = true;
  c.ppo.optimizer_epsilon = 1e-3;
  c.ppo.epochs = 1;
  c.ppo.minibatches = 4;
  c.ppo.vtrace = true;
  return c;
}

Config cartpole_impala() {
  Config c = cartpole_appo();
  c.algo = "impala";
  c.sampler.horizon = 16;
  c.sampler.envs = 16;
  c.impala = {.learning_rate = 2e-3,
              .optimizer_epsilon = 1e-3,
              .lambda = 0.95,
              .entropy_coef = 0,
              .max_grad_norm = 0.5};
  return c;
}

// Without the velocities, which have to be found out from what was seen before. Policy and value
// share the memory, so returns are kept small: the value's gradient would drown the policy's.
Config cartpole_memory_ppo() {
  Config c = classic_control("CartPole-v1", 300'000);
  c.env.keep_observation = {0, 2};
  c.env.reward_scale = 0.05;
  c.stop_return = 475;
  c.sampler.horizon = 64;
  c.agent.normalize_observation = true;
  c.model.hidden = {64};
  c.model.memory = MemoryKind::kLstm;
  c.model.memory_size = 64;
  c.ppo.learning_rate = 2e-3;
  c.ppo.gae_lambda = 0.95;
  return c;
}

Config cartpole_dqn() {
  Config c = classic_control("CartPole-v1", 100'000);
  c.algo = "dqn";
  c.log_steps = 1000;
  c.sampler.horizon = 4;
  c.sampler.envs = 8;
  c.off_policy = {.learning_starts = 1000, .replay_ratio = 32};
  c.replay = {.size = 50'000, .n_step = 3};
  c.q = {.dueling = true};
  c.dqn = {.learning_rate = 2e-3,
           .anneal_learning_rate = true,
           .batch = 128,
           .target_interval = 50,
           .huber = 0,
           .epsilon_end = 0.01,
           .epsilon_share = 0.3};
  return c;
}

// Returns of CartPole, discounted by 0.99, are 0 to 100.
Config cartpole_rainbow() {
  Config c = cartpole_dqn();
  c.replay.prioritized = true;
  c.replay.alpha = 0.5;
  c.q = {.dueling = true,
         .returns = ReturnKind::kCategorical,
         .v_min = 0,
         .v_max = 100,
         .noisy = true};
  c.dqn.learning_rate = 1e-3;
  c.dqn.batch = 64;
  c.dqn.target_interval = 100;
  c.dqn.epsilon_start = c.dqn.epsilon_end = 0;
  return c;
}

Config cartpole_r2d1() {
  Config c = classic_control("CartPole-v1", 200'000);
  c.algo = "r2d1";
  c.log_steps = 1000;
  c.env.keep_observation = {0, 2};
  c.sampler.horizon = 10;
  c.model.hidden = {64};
  c.model.memory = MemoryKind::kGru;
  c.model.memory_size = 64;
  c.off_policy = {.learning_starts = 2000, .replay_ratio = 48};
  c.epsilon_each = true;
  c.replay = {.size = 50'000, .n_step = 3, .prioritized = true, .alpha = 0.9};
  c.r2d1 = {.learning_rate = 1e-3,
            .anneal_learning_rate = true,
            .batch = 32,
            .target_interval = 100,
            .epsilon_end = 0.1,
            .epsilon_share = 0.3,
            .epsilon_last = 0.005};
  c.r2d1_burn_in = 10;
  c.r2d1_length = 20;
  return c;
}

Config acrobot_ppo() {
  Config c = classic_control("Acrobot-v1", 300'000);
  c.stop_return = -80;
  return c;
}

// Both cars reach their hill by chance only if an action lasts.
Config mountain_car_ppo() {
  Config c = classic_control("MountainCar-v0", 1'000'000);
  c.stop_return = -105;
  c.env.action_repeat = 4;
  c.env.normalize_reward = true;
  c.sampler.envs = 32;
  c.sampler.horizon = 64;
  c.ppo.gae_lambda = 0.98;
  c.ppo.entropy_coef = 0.01;
  return c;
}

Config mountain_car_continuous_ppo() {
  Config c = classic_control("MountainCarContinuous-v0", 100'000);
  c.env.action_repeat = 8;
  c.env.reward_scale = 0.1;
  return c;
}

// As large as the literature has it: a step, then an update from 256.
Config continuous_control(const std::string& id, const std::string& algo, std::int64_t steps) {
  Config c = classic_control(id, steps);
  c.algo = algo;
  c.log_steps = 1000;
  c.sampler.horizon = 1;
  c.sampler.envs = 1;
  c.model = {.name = "mlp", .hidden = {256, 256}};
  c.off_policy = {.learning_starts = 1000, .replay_ratio = 256};
  c.replay = {.size = 1'000'000};
  return c;
}

Config pendulum(const std::string& algo) {
  Config c = continuous_control("Pendulum-v1", algo, 20'000);
  c.model.hidden = {64, 64};
  c.replay.size = 20'000;
  c.sac.learning_rate = 1e-3;
  return c;
}

Config mujoco(const std::string& id, const std::string& algo, std::int64_t steps) {
  Config c = continuous_control(id, algo, steps);
  c.off_policy.learning_starts = 10'000;
  c.checkpoint_seconds = 300;
  return c;
}

// What it does changes much from one step to the next: rates that fall end that, and of many
// evaluations the best is kept.
Config hopper_td3() {
  Config c = mujoco("Hopper-v5", "td3", 300'000);
  c.eval_steps = 5000;
  c.eval_episodes = 10;
  c.off_policy = {.learning_starts = 2000, .replay_ratio = 128};
  c.td3.anneal_learning_rate = true;
  c.td3.batch = 128;
  return c;
}

Config pendulum_ppo() {
  Config c = classic_control("Pendulum-v1", 150'000);
  c.env.reward_scale = 0.1;
  c.sampler.horizon = 64;
  c.ppo.discount = 0.9;
  c.ppo.epochs = 10;
  c.ppo.minibatches = 16;
  return c;
}

// Small windows and few passes: on the CPU most of the time goes into learning.
Config atari_ppo(const std::string& game) {
  Config c;
  c.env_id = "ALE/" + game + "-v5";
  c.steps = c.schedule_steps = 10'000'000;
  c.env.atari.clip_reward = true;
  c.env.atari.fire_on_reset = true;
  c.env.atari.episodic_life = true;
  c.env.atari.sticky = 0;
  const int cores = static_cast<int>(allowed_cores().size());
  c.sampler = {.horizon = 64, .envs = 16, .workers = std::clamp(cores, 2, 16)};
  c.model = {.name = "nature-cnn", .shared_trunk = true};
  c.ppo = {.learning_rate = 5e-4, .epochs = 2, .minibatches = 4, .clip = 0.2};
  return c;
}

Config pong_ppo() {
  Config c = atari_ppo("Pong");
  c.steps = c.schedule_steps = 4'000'000;
  c.stop_return = 18;
  c.env.atari.episodic_life = false;  // as the curve in docs was made; Pong has no lives
  return c;
}

// Small pictures: at 84 x 84 pixels an update has three and a half times as much to multiply.
Config pong_dqn() {
  Config c = pong_ppo();
  c.algo = "dqn";
  c.steps = c.schedule_steps = 1'500'000;
  c.log_steps = 10'000;
  c.checkpoint_seconds = 600;
  c.env.atari.screen = 52;
  c.sampler.horizon = 4;
  c.off_policy = {.learning_starts = 10'000, .replay_ratio = 8};
  c.replay = {.size = 300'000, .n_step = 3, .prioritized = true, .alpha = 0.5};
  c.q = {.dueling = true};
  c.dqn = {.learning_rate = 2.5e-4,
           .batch = 64,
           .double_q = false,  // another pass of the network for each batch
           .target_interval = 500,
           .epsilon_end = 0.01,
           .epsilon_share = 0.05};
  return c;
}

// Workers act for themselves while this process learns.
Config pong_appo() {
  Config c = pong_ppo();
  c.sampler.kind = SamplerKind::kParallelCpu;
  while (c.sampler.envs % c.sampler.workers != 0) --c.sampler.workers;
  c.sampler.horizon = 32;
  c.asynchronous = true;
  c.ppo.epochs = 1;
  c.ppo.minibatches = 1;
  c.ppo.vtrace = true;
  return c;
}

Config breakout_ppo() {
  Config c = atari_ppo("Breakout");
  c.steps = c.schedule_steps = 5'000'000;
  return c;
}

struct Entry {
  std::string name, doc;
  std::function<Config()> make;
};

// Games of the Arcade Learning Environment that the literature reports most, by preset.
constexpr std::pair<const char*, const char*> kAtariGames[] = {
    {"assault", "Assault"},      {"asterix", "Asterix"},
    {"beam-rider", "BeamRider"}, {"boxing", "Boxing"},
    {"enduro", "Enduro"},        {"freeway", "Freeway"},
    {"ms-pacman", "MsPacman"},   {"qbert", "Qbert"},
    {"seaquest", "Seaquest"},    {"space-invaders", "SpaceInvaders"}};

std::vector<Entry> make_entries() {
  std::vector<Entry> all{
      {"cartpole-ppo", "CartPole with PPO, until the mean return is 475", cartpole_ppo},
      {"cartpole-a2c", "CartPole with A2C, until the mean return is 475", cartpole_a2c},
      {"cartpole-appo", "CartPole with asynchronous PPO, 500 thousand agent steps", cartpole_appo},
      {"cartpole-impala", "CartPole with IMPALA, 500 thousand agent steps", cartpole_impala},
      {"cartpole-memory-ppo", "CartPole without velocities, with PPO and an LSTM",
       cartpole_memory_ppo},
      {"cartpole-dqn", "CartPole with DQN (double, dueling, 3-step), 100 thousand agent steps",
       cartpole_dqn},
      {"cartpole-rainbow", "CartPole with Rainbow, 100 thousand agent steps", cartpole_rainbow},
      {"cartpole-r2d1", "CartPole without velocities with R2D1 and a GRU, 200 thousand agent steps",
       cartpole_r2d1},
      {"acrobot-ppo", "Acrobot with PPO, 300 thousand agent steps at most", acrobot_ppo},
      {"mountain-car-ppo", "MountainCar with PPO, 1 million agent steps of 4 at most",
       mountain_car_ppo},
      {"mountain-car-continuous-ppo", "its continuous form with PPO, 100 thousand agent steps of 8",
       mountain_car_continuous_ppo},
      {"pendulum-ppo", "Pendulum with PPO, 150 thousand agent steps", pendulum_ppo},
      {"pendulum-sac", "Pendulum with SAC, 20 thousand agent steps",
       [] { return pendulum("sac"); }},
      {"pendulum-td3", "Pendulum with TD3, likewise", [] { return pendulum("td3"); }},
      {"pendulum-ddpg", "Pendulum with DDPG, likewise", [] { return pendulum("ddpg"); }},
      {"half-cheetah-sac", "MuJoCo's HalfCheetah with SAC, 1 million agent steps",
       [] { return mujoco("HalfCheetah-v5", "sac", 1'000'000); }},
      {"hopper-td3", "MuJoCo's Hopper with TD3, 300 thousand agent steps", hopper_td3},
      {"pong-ppo", "Atari Pong with PPO, 4 million agent steps at most", pong_ppo},
      {"pong-appo", "Atari Pong with asynchronous PPO, likewise", pong_appo},
      {"pong-dqn", "Atari Pong with DQN, 1.5 million agent steps at most", pong_dqn},
      {"breakout-ppo", "Atari Breakout with PPO, 5 million agent steps", breakout_ppo}};
  for (const auto& [name, game] : kAtariGames)
    all.push_back({fmt::format("{}-ppo", name),
                   fmt::format("Atari {} with PPO, 10 million agent steps", game),
                   [id = game] { return atari_ppo(id); }});
  return all;
}

const std::vector<Entry>& entries() {
  static const auto kAll = make_entries();
  return kAll;
}

bool is_preset(const std::string& name) {
  return std::ranges::find(entries(), name, &Entry::name) != entries().end();
}

}  // namespace

std::vector<Preset> presets() {
  std::vector<Preset> list;
  for (const auto& entry : entries()) list.push_back({entry.name, entry.doc});
  return list;
}

Config preset(const std::string& name) {
  std::vector<std::string> names;
  for (const auto& entry : entries()) {
    if (entry.name == name) {
      Config config = entry.make();
      config.preset = name;
      return config;
    }
    names.push_back(entry.name);
  }
  throw Error("there is no preset '{}'; the nearest is '{}'", one_line(name), nearest(name, names));
}

Config preset_or_file(const std::string& name) {
  if (is_preset(name)) return preset(name);
  std::error_code error;  // of what cannot be looked at: read_config() tells
  const bool file = name.find('/') != std::string::npos || name.ends_with(".toml") ||
                    std::filesystem::exists(name, error) || error;
  return file ? read_config(name) : preset(name);
}

}  // namespace shoal
