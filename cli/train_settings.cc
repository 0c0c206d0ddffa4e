#include "cli/train_settings.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <string_view>
#include <utility>

#include "cli/commands.h"
#include "cli/cores.h"
#include "cli/set_flag.h"
#include "runners/preset_names.h"
#include "runners/settings.h"
#include "shoal/core/error.h"
#include "shoal/core/text.h"
#include "shoal/envs/registry.h"
#include "shoal/ipc/worker_group.h"
#include "shoal/runners/zoo.h"
#include "src/envs/gymnasium/python_id.h"

namespace shoal::cli {
namespace {

constexpr std::size_t kLineWidth = 96;

Settings changes_of(const TrainFlags& flags) {
  auto changes = key_values(flags.settings);
  for (const auto& [key, value] : changes)
    require(key != "base",
            "--set: 'base' cannot be set; name the preset instead: shoal train PRESET");
  for (std::size_t i = 0; i < kShorthands.size(); ++i)
    if (!flags.values[i].empty()) changes.emplace_back(kShorthands[i].key, flags.values[i]);
  return changes;
}

bool changes_key(const Settings& changes, const std::string& key) {
  return std::ranges::any_of(changes, [&](const auto& change) { return change.first == key; });
}

// "auto", "none" or a list of cores.
void pin_workers(Config& config, const std::string& how) {
  config.sampler.pin = how != "none";
  config.sampler.cores.clear();
  if (how == "auto" || how == "none") return;
  require(how.find_first_of(",-") != std::string::npos,
          "--pin: found '{}', expected auto, none or a list of cores such as 0-3,6 (or 2-2)", how);
  for (const int core : parse_cores(how)) config.sampler.cores.push_back(core);
}

// The settings that differ from those of the program, without the preset and the environment.
std::vector<SettingChange> own_settings(const Config& config) {
  auto own = changed_settings(Config(), config);
  std::erase_if(
      own, [](const auto& setting) { return setting.key == "base" || setting.key == "env.id"; });
  return own;
}

// A setting whose key ends with `key` has no effect while `other` is `value`.
struct SwitchedOff {
  std::string_view key, other, value;
};
constexpr SwitchedOff kSwitchedOff[] = {
    {"sampler.workers", "sampler.kind", "serial"},
    {"sampler.on_death", "sampler.kind", "serial"},
    {"sampler.pin", "sampler.kind", "serial"},
    {"sampler.cores", "sampler.kind", "serial"},
    {"sampler.cores", "sampler.pin", "false"},
    {"sampler.dynamic_batch_timeout_us", "sampler.dynamic_batch", "0"},
    {"async.max_lag", "async.stale", "use"},
    {"replay.shared", "ranks", "1"},
    {"replay.alpha", "replay.prioritized", "false"},
    {".beta_start", "replay.prioritized", "false"},
    {".beta_end", "replay.prioritized", "false"},
    {"r2d1.beta", "replay.prioritized", "false"},
    {"r2d1.priority_eta", "replay.prioritized", "false"},
    {"off_policy.epsilon_each", "algo", "ddpg"},
    {"off_policy.epsilon_each", "algo", "td3"},
    {"off_policy.epsilon_each", "algo", "sac"},
    {"off_policy.epsilon_each", "dqn.noisy", "true"},
    {".epsilon_last", "off_policy.epsilon_each", "false"},
    {"dqn.epsilon_last", "dqn.noisy", "true"},
    {"dqn.epsilon_start", "dqn.noisy", "true"},
    {"dqn.epsilon_end", "dqn.noisy", "true"},
    {"dqn.exploration_fraction", "dqn.noisy", "true"},
    {"dqn.noise", "dqn.noisy", "false"},
    {"dqn.atoms", "dqn.returns", "mean"},
    {"dqn.v_min", "dqn.returns", "mean"},
    {"dqn.v_min", "dqn.returns", "quantile"},
    {"dqn.v_max", "dqn.returns", "mean"},
    {"dqn.v_max", "dqn.returns", "quantile"},
    {"dqn.huber_delta", "dqn.returns", "categorical"},
    {"sac.target_entropy", "sac.learn_alpha", "false"},
    {"ppo.rho_bar", "ppo.vtrace", "false"},
    {"ppo.c_bar", "ppo.vtrace", "false"},
    {"model.shared_trunk", "model.name", "nature-cnn"},
    {"model.shared_trunk", "model.memory", "lstm"},
    {"model.shared_trunk", "model.memory", "gru"},
};

// Which settings have an effect beside the others.
class Effects {
 public:
  explicit Effects(const Config& config) : config_(config) {
    for (const auto& [key, value, doc] : setting_docs(config))
      values_[key] = value.starts_with('"') ? value.substr(1, value.size() - 2) : value;
  }

  // The setting that makes this one ineffective, or "" if it has an effect.
  std::string why_unused(const std::string& key) const {
    const auto table = table_of_key(key), algo = "algo = " + config_.algo;
    if (!algo_has_table(config_, table)) return algo;
    const bool of_another = (table == "atari" && !config_.env_id.starts_with("ALE/")) ||
                            (key == "gymnasium.python" && !is_in_python(config_.env_id));
    if (of_another) return "env.id = " + config_.env_id;
    if (table == "async" && !config_.asynchronous) return "sampler.asynchronous = false";
    if (key == "eval_episodes" && config_.eval_steps == 0 && config_.live_eval_seconds == 0)
      return "eval_steps = 0";
    if (key == "model.shared_trunk" && is_off_policy(config_)) return algo;
    // The MLPs of critics have these layers in any case.
    if (key == "model.hidden" && config_.model.name == "nature-cnn" && !is_off_policy(config_))
      return "model.name = nature-cnn";
    if (key.starts_with("model.memory_") && is_builtin_model(config_.model.name) &&
        config_.model.memory == MemoryKind::kNone)
      return "model.memory = none";
    for (const auto& [end, other, value] : kSwitchedOff) {
      const std::string by(other);
      if (key.ends_with(end) && algo_has_table(config_, table_of_key(by)) &&
          values_.at(by) == value)
        return fmt::format("{} = {}", by, value);
    }
    return "";
  }

 private:
  const Config& config_;
  std::map<std::string, std::string> values_;  // of all settings, strings without quotes
};

// The changed settings, a few to a line; those without effect are left out.
std::string chosen(const Config& config) {
  auto lines =
      fmt::format("{} begins with these settings, of presets/{}.toml and the command line:\n",
                  config.env_id, config.base);
  const Effects effects(config);
  std::string line;
  for (const auto& [key, usual, value] : own_settings(config)) {
    if (!effects.why_unused(key).empty()) continue;
    const auto word = fmt::format("{} = {}", key, value);
    if (!line.empty() && line.size() + word.size() > kLineWidth) {
      lines += line + ",\n";
      line.clear();
    }
    line += (line.empty() ? "  " : ", ") + word;
  }
  return lines + line + "\n";
}

// Refuses the id of an environment where a preset is expected.
void require_no_env(const std::string& source) {
  const auto ids = env_ids();
  const auto version = source.rfind("-v");
  const bool versioned = version != source.npos && version + 2 < source.size() &&
                         source.find_first_not_of("0123456789", version + 2) == source.npos;
  const bool id = versioned || std::ranges::find(ids, source) != ids.end();
  require(!id || std::filesystem::exists(source),
          "found '{}', expected a preset or a file of settings; to train on an environment: shoal "
          "train --env {}",
          one_line(source), one_line(source));
}

Config begin_from(const TrainFlags& flags, const Settings& changes) {
  if (!flags.resume.empty()) return read_run_config(resumed_run(flags.resume).folder);
  require_no_env(flags.source);
  Config config =
      flags.source.empty() ? without_preset(changes) : preset_or_file(flags.source, changes);
  // Absolute, so that config.toml begins the same run from any folder.
  if (is_in_zoo(flags.init_from))
    config.init_from = flags.init_from;
  else if (!flags.init_from.empty())
    config.init_from = std::filesystem::absolute(flags.init_from).lexically_normal().string();
  return config;
}

// The functions below return lines for the user, or an empty string.

std::string without_stop_return(Config& config, const Config& before, const Settings& changes) {
  if (changes_key(changes, "stop_return") || !forget_stop_return(config, before.env_id)) return "";
  return fmt::format("stop_return is off: {:.6g} was for {}, not {}\n", before.stop_return,
                     before.env_id, config.env_id);
}

// The settings of the environment that the preset or file gave for another one.
std::string kept(const Config& config, const Config& before, const Settings& changes) {
  std::string words;
  const Effects effects(config);
  for (const auto& [key, usual, value] : own_settings(config))
    if (is_of_env(key) && !changes_key(changes, key) && effects.why_unused(key).empty())
      words += fmt::format("{}{} = {}", words.empty() ? "" : ", ", key, value);
  return words.empty() ? "" : fmt::format("kept from {}: {}\n", before.env_id, words);
}

}  // namespace

std::set<std::string> keys_of(const Settings& changes) {
  std::set<std::string> keys;
  for (const auto& [key, value] : changes) keys.insert(key);
  return keys;
}

Config as_begun(Config asked, const Config& begun) {
  if (asked.schedule_steps == 0) asked.schedule_steps = begun.schedule_steps;
  if (asked.sampler.kind == SamplerKind::kAuto) {
    asked.sampler.kind = begun.sampler.kind;
    asked.sampler.workers = begun.sampler.workers;
    asked.sampler.groups = begun.sampler.groups;
  }
  return asked;
}

std::set<std::string> keys_of_file(const std::string& source, const Config& read) {
  std::set<std::string> keys;
  if (source.empty() || is_preset(source)) return keys;
  const Config base = is_preset(read.base) ? preset(read.base) : Config();
  for (const auto& change : changed_settings(base, read)) keys.insert(change.key);
  return keys;
}

std::string without_effect(const Config& config, const std::set<std::string>& keys) {
  std::string lines;
  // A run takes whole rollouts.
  const double rollout =
      static_cast<double>(config.sampler.envs) * static_cast<double>(config.sampler.horizon);
  const double steps = std::ceil(static_cast<double>(config.steps) / rollout) * rollout;
  if (is_off_policy(config) && steps <= static_cast<double>(config.off_policy.learning_starts))
    lines += fmt::format(
        "nothing is learned in {} steps: learning begins after off_policy.learning_starts, {}\n",
        config.steps, config.off_policy.learning_starts);
  const Effects effects(config);
  for (const auto& key : keys)
    if (const auto why = effects.why_unused(key); !why.empty())
      lines += fmt::format("{} has no effect with {}\n", key, why);
  return lines;
}

Config without_preset(const Settings& changes) {
  Config asked;
  set_all(asked, changes);
  check_ranges(options_of(asked));
  return default_config(asked, changes_key(changes, "algo") ? asked.algo : "");
}

Resumed resumed_run(const std::filesystem::path& given) {
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(given, ignored)) return {given};
  return {given.has_parent_path() ? given.parent_path() : ".", given.filename().string()};
}

Configured configure(const TrainFlags& flags, const JobPlace& job) {
  const auto changes = changes_of(flags);
  const bool begins = !flags.source.empty() || changes_key(changes, "env.id");
  require(begins || !flags.resume.empty(),
          "give a preset, a file or --env ID to begin a run, or --resume RUN to continue one");
  require(flags.source.empty() || flags.resume.empty(),
          "--resume RUN continues a run with its own settings; remove '{}'",
          one_line(flags.source));
  require(flags.resume.empty() || (flags.out.empty() && flags.init_from.empty()),
          "--resume continues in the run's own folder, with its own weights; remove --out and "
          "--init-from");
  if (!flags.cores.empty()) use_cores(parse_cores(flags.cores));  // before presets count the cores
  const Config before = begin_from(flags, changes);
  Config config = before;
  set_all(config, changes);
  if (!flags.resume.empty()) {
    for (const auto& change : changed_settings(before, config))
      require(may_change(change.key),
              "{} cannot change when a run is resumed; begin another run from its weights with "
              "--init-from {}",
              change.key, shell_word(flags.resume));
    forget_choice(config, keys_of(changes));
  }
  std::string notes;
  if (!before.env_id.empty() && config.env_id != before.env_id)
    notes = without_stop_return(config, before, changes) + kept(config, before, changes);
  auto given = keys_of_file(flags.source, before);
  given.merge(keys_of(changes));
  if (!flags.pin.empty()) {
    given.insert("sampler.pin");
    pin_workers(config, flags.pin);
  }
  // By default, each process that a launcher starts is one rank.
  const bool one_each = config.ranks == 1 || !flags.resume.empty();
  if (job.count > 1 && one_each && !changes_key(changes, "ranks")) config.ranks = job.count;
  notes += without_effect(config, given);
  const bool chose = flags.resume.empty() && before.base.starts_with(kDefaultsFolder);
  return {config, notes + (chose ? chosen(config) : "")};
}

}  // namespace shoal::cli
