#include <algorithm>
#include <filesystem>
#include <system_error>

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

// What the Atari presets share.
Config atari_ppo(const std::string& id) {
  Config c;
  c.env_id = id;
  c.steps = c.schedule_steps = 10'000'000;
  c.env.atari.clip_reward = true;
  c.env.atari.fire_on_reset = true;
  c.env.atari.episodic_life = false;
  c.env.atari.sticky = 0;
  const int cores = static_cast<int>(allowed_cores().size());
  c.sampler = {.horizon = 128, .envs = 32, .workers = std::clamp(cores, 2, 16)};
  c.model = {.name = "nature-cnn", .shared_trunk = true};
  c.ppo = {.learning_rate = 5e-4, .epochs = 4, .minibatches = 8, .clip = 0.1, .anneal_clip = true};
  return c;
}

Config pong_ppo() {
  Config c = atari_ppo("ALE/Pong-v5");
  c.steps = c.schedule_steps = 4'000'000;
  c.stop_return = 18;
  // Small windows and few passes: on the CPU most of the time goes into learning.
  c.sampler.envs = 16;
  c.sampler.horizon = 64;
  c.ppo.epochs = 2;
  c.ppo.minibatches = 4;
  c.ppo.clip = 0.2;
  c.ppo.anneal_clip = false;
  return c;
}

Config breakout_ppo() {
  Config c = atari_ppo("ALE/Breakout-v5");
  c.env.atari.episodic_life = true;
  return c;
}

struct Entry {
  const char *name, *doc;
  Config (*make)();
};
constexpr Entry kPresets[] = {
    {"cartpole-ppo", "CartPole with PPO, until the mean return is 475", cartpole_ppo},
    {"pong-ppo", "Atari Pong with PPO, 4 million agent steps at most", pong_ppo},
    {"breakout-ppo", "Atari Breakout with PPO, 10 million agent steps", breakout_ppo},
};

bool is_preset(const std::string& name) {
  return std::any_of(std::begin(kPresets), std::end(kPresets),
                     [&](const Entry& entry) { return entry.name == name; });
}

}  // namespace

std::vector<Preset> presets() {
  std::vector<Preset> list;
  for (const auto& entry : kPresets) list.push_back({entry.name, entry.doc});
  return list;
}

Config preset(const std::string& name) {
  std::vector<std::string> names;
  for (const auto& entry : kPresets) {
    if (entry.name == name) {
      Config config = entry.make();
      config.preset = name;
      return config;
    }
    names.emplace_back(entry.name);
  }
  throw Error("there is no preset '{}'; the nearest is '{}'", name, nearest(name, names));
}

Config preset_or_file(const std::string& name) {
  if (is_preset(name)) return preset(name);
  std::error_code error;  // of what cannot be looked at: read_config() tells
  const bool file = name.find('/') != std::string::npos || name.ends_with(".toml") ||
                    std::filesystem::exists(name, error) || error;
  return file ? read_config(name) : preset(name);
}

}  // namespace shoal
