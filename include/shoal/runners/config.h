#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

#include "shoal/algos/algo_spec.h"
#include "shoal/envs/registry.h"
#include "shoal/models/actor_critic.h"
#include "shoal/runners/learner.h"
#include "shoal/samplers/async_sampler.h"
#include "shoal/samplers/sampler.h"

namespace shoal {

// Everything that decides a run. What each setting means, and its key in files and after --set, is
// in one list (runners/settings.h), shown by setting_docs().
struct Config {
  std::string base;  // the preset this started from; empty: none
  std::string algo = "ppo";
  std::int64_t steps = 1'000'000;   // agent steps of all environments together
  std::int64_t schedule_steps = 0;  // steps over which schedules run; 0: as many as `steps`
  double stop_return = std::numeric_limits<double>::infinity();  // mean score of 100 episodes
  std::string init_from;  // a run folder whose newest checkpoint gives the initial parameters
  double checkpoint_seconds = 60;
  std::int64_t checkpoint_steps = 0;  // likewise steps; 0: time alone decides
  std::int64_t keep_checkpoints = 1;  // the last ones
  std::int64_t log_steps = 0;         // between rows of progress; 0: one for every rollout
  double table_seconds = 0;           // between tables of all numbers on the console; 0: none
  bool tensorboard = false;           // also write event files for TensorBoard
  std::int64_t eval_steps = 0;        // steps between evaluations; 0: none
  std::int64_t eval_episodes = 10;    // of each
  double live_eval_seconds = 0;       // between evaluations beside the training; 0: none
  std::uint64_t seed = 1;      // of everything: environments, actions, initial weights, minibatches
  std::string device = "cpu";  // cpu | cuda | cuda:N
  int threads = 0;             // of tensor arithmetic; 0: one per allowed core
  double stop_grace = 10;      // seconds that a wait goes on after a signal has asked to stop
  int ranks = 1;  // processes that learn together, each with its share of the environments
  double rank_timeout = 300;  // seconds one of them waits for another
  RankBackend rank_backend = RankBackend::kAuto;

  std::string env_id;
  EnvOptions env;
  SamplerOptions sampler;     // its seed is not used: see training_sampler()
  bool asynchronous = false;  // it samples while the agent learns
  AsyncOptions async;
  ModelOptions model;
  ActorCriticOptions agent;
  OffPolicyOptions off_policy;
  ReplayOptions replay;
  AlgoSpecs algos;  // the options of every algorithm; `algo` names the one that learns

  // The options of this type, whichever algorithm has them:
  // config.options<PpoOptions>().clip = 0.1.
  template <class Options>
  Options& options() {
    for (const auto& spec : algos)
      if (void* own = spec->find_options(typeid(Options))) return *static_cast<Options*>(own);
    throw std::logic_error("no algorithm is registered that has these options");
  }
};

// A setting as people see it: its dotted key, its value as TOML, and what it means.
struct SettingDoc {
  std::string key, value, doc;
};
std::vector<SettingDoc> setting_docs(const Config& config = {});

// Sets one setting from text. Words need no quotes: set(config, "sampler.kind", "serial"). Throws
// Error naming the key, what was found and what was expected; an unknown key is refused with the
// nearest known one.
void set(Config& config, const std::string& key, const std::string& value);

// A file may name a preset to start from (`base = "..."`); every other key overrides it. Throws
// Error if it cannot be read, is not TOML, or holds an unknown key or a value of the wrong type.
Config read_config(const std::filesystem::path& file);
// The settings in the text of such a file; `file` is for messages.
Config parse_config(const std::string& text, const std::string& file);
// That of a run, from its folder. Throws Error if there is none, and likewise.
inline constexpr const char* kConfigFile = "config.toml";  // complete and re-runnable
Config read_run_config(const std::filesystem::path& run);
// Every setting, so that the text read back gives the same Config.
std::string write_config(const Config& config);

// Throws Error for values that cannot work together, before anything is made from them.
void validate(const Config& config);

// Presets: the files of presets/, which are built into the library.
struct Preset {
  std::string name, doc;
};
std::vector<Preset> presets();
Config preset(const std::string& name);          // throws Error with the nearest known name
Config preset_or_file(const std::string& name);  // a preset's name, or the path of a TOML file

// The parts a Config describes.
std::vector<std::string> sampler_names();
// Environments of env_id, with the time limits of the sampler.
EnvFactory make_env_factory(const Config& config);
SamplerOptions training_sampler(const Config& config);
// `sampler.workers`, or for 0 one for each core that this process may use, fewer if that leaves the
// largest share of environments as small; all shares are equal where an asynchronous parallel-cpu
// sampler needs that.
int worker_count(const Config& config);
int tensor_threads(const Config& config);  // `threads`, or one for each allowed core
Config whole_games(Config config);         // the same, but a lost life ends no episode
// The spec of the algorithm that learns. Throws Error, naming the nearest one, if there is none.
const AlgoSpec& algo_of(const Config& config);
RunOptions run_options(const Config& config);
bool is_off_policy(const Config& config);
// On the CPU.
std::unique_ptr<Agent> make_agent(const Config& config);
std::unique_ptr<Agent> make_agent(const Config& config, const EnvSpec& env);
// Throws Error if learning from one minibatch takes more memory than there is.
void require_minibatch_fits(const Config& config, const EnvSpec& env);

// The agent is that of make_agent(), on its device. Throws Error if the algorithm of `config` is
// off-policy.
std::unique_ptr<OnPolicyAlgo> make_algo(const Config& config, Agent& agent,
                                        ProcessGroup& ranks = group_of_one());

// Makes the off-policy algorithm of `config` and this rank's part of its replay. memory: the ranks'
// shared memory if config.replay.shared, else null.
Learner make_learner(const Config& config, const EnvSpec& env, Agent& agent,
                     ProcessGroup& ranks = group_of_one(), const ReplayMemory* memory = nullptr);
// "1000000 steps, 7.1 GB": what its replay, of all ranks together, will take.
std::string replay_size(const Config& config, const EnvSpec& env, const Agent& agent);

}  // namespace shoal
