#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "shoal/algos/algo_spec.h"
#include "shoal/envs/registry.h"
#include "shoal/models/model_options.h"
#include "shoal/runners/learner.h"
#include "shoal/samplers/async_sampler.h"
#include "shoal/samplers/sampler.h"

namespace shoal {

// All settings of a run. One list (runners/settings.h) holds the meaning of each setting and its
// key in files and for --set; setting_docs() returns it.
struct Config {
  std::string base;  // the preset that the run started from; empty: none
  std::string algo = "ppo";
  std::int64_t steps = 1'000'000;   // agent steps, over all environments
  std::int64_t schedule_steps = 0;  // length of the schedules, in steps; 0: `steps`
  double stop_return = std::numeric_limits<double>::infinity();  // mean score of 100 episodes
  std::string init_from;  // the trained agent (trained_agent.h) that gives the weights
  double checkpoint_seconds = 60;
  std::int64_t checkpoint_steps = 0;  // steps between checkpoints; 0: by time only
  std::int64_t keep_checkpoints = 1;  // number of checkpoints to keep
  std::int64_t log_steps = 0;         // steps between rows of progress; 0: one row per rollout
  double table_seconds = 0;         // seconds between tables of all metrics on the console; 0: none
  bool tensorboard = false;         // also write event files for TensorBoard
  std::int64_t eval_steps = 0;      // steps between evaluations; 0: none
  std::int64_t eval_episodes = 10;  // per evaluation
  double live_eval_seconds = 0;     // seconds between evaluations in a separate process; 0: none
  std::uint64_t seed = 1;           // of environments, actions, initial weights and minibatches
  std::string device = "cpu";       // cpu | cuda | cuda:N
  int threads = 0;                  // of tensor operations; 0: one per allowed core
  double stop_grace = 10;           // seconds for completing a rollout after a stop signal
  int ranks = 1;  // processes of data-parallel training, which share the environments evenly
  double rank_timeout = 300;  // seconds that a rank waits for another
  RankBackend rank_backend = RankBackend::kAuto;

  std::string env_id;
  EnvOptions env;
  // Its seed is unused: see training_sampler().
  SamplerOptions sampler{.kind = SamplerKind::kAuto, .workers = 0};
  bool asynchronous = false;  // sample while the agent learns
  AsyncOptions async;
  ModelOptions model{.name = "auto"};
  ActorCriticOptions agent;
  OffPolicyOptions off_policy;
  ReplayOptions replay;
  AlgoSpecs algos;  // options of every algorithm; `algo` names the one that learns

  // The options of this type, from the algorithm that has them:
  // config.options<PpoOptions>().clip = 0.1.
  template <class Options>
  Options& options() {
    for (const auto& spec : algos)
      if (void* own = spec->find_options(typeid(Options))) return *static_cast<Options*>(own);
    throw std::logic_error("no algorithm is registered that has these options");
  }
};

// A setting for display: its dotted key, its value as TOML, and its meaning.
struct SettingDoc {
  std::string key, value, doc;
};
std::vector<SettingDoc> setting_docs(const Config& config = {});

// A setting that has another value in a second configuration; both as TOML.
struct SettingChange {
  std::string key, before, now;
};
std::vector<SettingChange> changed_settings(const Config& before, const Config& now);

// Sets one setting from text. Strings need no quotes: set(config, "sampler.kind", "serial"). Throws
// Error naming the key, the found and the expected value; for an unknown key, the error names the
// one that was probably meant, if there is one.
void set(Config& config, const std::string& key, const std::string& value);
// Keys and values for set(), in the order in which they apply.
using Settings = std::vector<std::pair<std::string, std::string>>;

// A file may name a preset to start from (`base = "..."`); every other key overrides it. Throws
// Error if it cannot be read, is not TOML, or holds an unknown key or a value of the wrong type.
Config read_config(const std::filesystem::path& file);
// Parses the text of such a file; `file` appears in messages.
Config parse_config(const std::string& text, const std::string& file);
// Reads the configuration of a run from its folder. Throws Error if there is none, and as
// read_config().
inline constexpr const char* kConfigFile = "config.toml";  // complete and re-runnable
Config read_run_config(const std::filesystem::path& run);
// All settings as TOML; parse_config() of the text gives the same settings.
std::string write_config(const Config& config);

// Throws Error for inconsistent values. Called before anything is constructed from them.
void validate(const Config& config);
// The part of validate() that concerns a sampler: all but the rules of the algorithm.
void validate_sampling(const Config& config);

// Presets: the files of presets/, compiled into the library.
struct Preset {
  std::string name, doc;
};
std::vector<Preset> presets();
Config preset(const std::string& name);  // throws Error with the nearest known name
// The settings with which another run begins: schedules that are as long as the run follow its
// steps when those are changed.
Config as_base(Config config);
// The same of a preset, or of the TOML file at this path. A file without `base` starts from
// default_config() for its env.id and algo, or for those of `given`, settings that the caller makes
// afterwards.
Config preset_or_file(const std::string& name, const Settings& given = {});
// Settings for an environment without a preset, except env.id: those of presets/defaults for its
// kind of task (vectors or pictures, discrete or real-valued actions) and for the algorithm. If
// `algo` is empty, the file of the kind names one. Throws Error for an unknown algorithm.
Config default_config(const EnvSpec& env, const std::string& algo = "");
// The same for the environment that `asked` describes, which is made to see its kind.
Config default_config(const Config& asked, const std::string& algo);

// The return that solves one task means nothing in another: switches stop_return off if env_id is
// no longer `task`. Returns whether it was on. An empty `task` is none.
bool forget_stop_return(Config& config, const std::string& task);

// The settings of a run have the numbers of workers and groups that were chosen with its sampler.
// If the sampler is to be chosen again, so are they, unless their keys are in `given`.
void forget_choice(Config& config, const std::set<std::string>& given);

// The components that a Config describes.
std::vector<std::string> sampler_names();
// Makes environments of env_id, with the time limits of the sampler.
EnvFactory make_env_factory(const Config& config);
// Config::sampler with the seed, stream, discount and host_rollouts of a training.
SamplerOptions training_sampler(const Config& config);
// `sampler.workers`. If it is 0: one worker per core that this process may use, or fewer if the
// largest share of environments stays the same. For asynchronous parallel-cpu, where it changes
// what is learned: two, or one for an algorithm with a replay or an odd number of environments.
int worker_count(const Config& config);
int worker_count(const Config& config, std::int64_t cores);  // on so many cores
// The workers of one rank: its share of worker_count(), at least one, at most its environments.
int workers_of_rank(const Config& config, int rank);
int tensor_threads(const Config& config);  // `threads`; if 0, one per allowed core
// The spec of the algorithm that learns. Throws Error, naming the nearest algorithm, for an unknown
// one.
const AlgoSpec& algo_of(const Config& config);
RunOptions run_options(const Config& config);
bool is_off_policy(const Config& config);
// The agent is on the CPU.
std::unique_ptr<Agent> make_agent(const Config& config);
std::unique_ptr<Agent> make_agent(const Config& config, const EnvSpec& env);
// Throws Error if learning from one minibatch needs more memory than is available.
void require_minibatch_fits(const Config& config, const EnvSpec& env);

// `agent` must come from make_agent() and be on its device. Throws Error if the algorithm of
// `config` is off-policy.
std::unique_ptr<OnPolicyAlgo> make_algo(const Config& config, Agent& agent,
                                        ProcessGroup& ranks = group_of_one());

// Makes the off-policy algorithm of `config` and this rank's part of its replay. memory: the shared
// memory of the ranks if config.replay.shared is true, else null.
Learner make_learner(const Config& config, const EnvSpec& env, Agent& agent,
                     ProcessGroup& ranks = group_of_one(), const ReplayMemory* memory = nullptr);
// The size of the replay, over all ranks: "1000000 steps, 7.1 GB".
std::string replay_size(const Config& config, const EnvSpec& env, const Agent& agent);

}  // namespace shoal
