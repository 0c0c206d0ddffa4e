#include "shoal/runners/config.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <system_error>

#include "runners/settings.h"
#include "runners/toml_limits.h"
#include "runners/toml_values.h"
#include "shoal/core/error.h"
#include "shoal/core/text.h"
#include "shoal/runners/files.h"

namespace shoal {

namespace {

constexpr std::pair<const char*, const char*> kRenamed[] = {
    {"preset", "base"},
    {"async.too_old", "async.stale"},
    {"dqn.epsilon_share", "dqn.exploration_fraction"},
    {"dqn.huber", "dqn.huber_delta"},
    {"dqn.target_share", "dqn.tau"},
    {"env.keep_observation", "env.observation_indices"},
    {"a2c.accumulate", "a2c.gradient_accumulation"},
    {"ppo.accumulate", "ppo.gradient_accumulation"},
    {"r2d1.epsilon_share", "r2d1.exploration_fraction"},
    {"r2d1.huber", "r2d1.huber_delta"},
    {"sampler.batch", "sampler.dynamic_batch"},
    {"sampler.batch_wait_us", "sampler.dynamic_batch_timeout_us"},
    {"sampler.reset", "sampler.mid_batch_reset"}};

constexpr std::pair<const char*, const char*> kNamesOfOtherLibraries[] = {
    {"gamma", "discount"},
    {"lr", "learning_rate"},
    {"lr", "critic_rate"},
    {"lr", "policy_rate"},
    {"learning_rate", "critic_rate"},
    {"learning_rate", "policy_rate"},
    {"anneal_lr", "anneal_learning_rate"},
    {"n_envs", "envs"},
    {"num_envs", "envs"},
    {"n_steps", "horizon"},
    {"num_steps", "horizon"},
    {"batch_T", "horizon"},
    {"batch_B", "envs"},
    {"batch_size", "batch"},
    {"n_epochs", "epochs"},
    {"update_epochs", "epochs"},
    {"clip_range", "clip"},
    {"clip_coef", "clip"},
    {"gae", "gae_lambda"},
    {"ent_coef", "entropy_coef"},
    {"vf_coef", "value_coef"},
    {"policy_delay", "policy_interval"},
    {"exploration_final_eps", "epsilon_end"},
    {"buffer_size", "size"},
    {"net_arch", "hidden"},
    {"normalize_obs", "normalize_observation"},
    {"max_episode_steps", "time_limit"},
    {"total_timesteps", "steps"}};

std::string name_in_table(const std::string& key) { return key.substr(key.rfind('.') + 1); }

// Whether less than half of the word would have to change.
bool is_near(const std::string& word, const std::string& known) {
  return nearest(word, {word.substr(0, word.size() / 2), known}) == known;
}

[[noreturn]] void refuse_unknown(const std::string& key, const Config& config) {
  for (const auto& [before, now] : kRenamed)
    require(key != before, "the setting '{}' was renamed to '{}'", before, now);
  // The flags of `shoal train` and the keywords of Python that leave out a table.
  for (const auto& [word, meant] : {std::pair{"env", "env.id"}, {"sampler", "sampler.kind"}})
    require(key != word, "unknown setting '{}'; the nearest is '{}'", word, meant);
  const auto last = name_in_table(key), own = table_of_key(key);
  const bool of_ppo = config.algo == "ppo" && (own.empty() || own == "ppo");
  require(!of_ppo || last != "batch_size",
          "unknown setting '{}'; give ppo.minibatches: sampler.horizon * sampler.envs / {}",
          one_line(key), last);
  const auto names = setting_names_of(last);
  std::vector<std::string> keys, same, translated;
  for (const auto& setting : setting_docs()) {
    const auto table = table_of_key(setting.key);
    if (table != own && !algo_has_table(config, table)) continue;
    keys.push_back(setting.key);
    const auto name = name_in_table(setting.key);
    if (name == last) same.push_back(setting.key);
    if (std::ranges::count(names, name) > 0) translated.push_back(setting.key);
  }
  auto meant = same.empty() ? translated : same;
  const auto elsewhere = [&](const std::string& k) { return table_of_key(k) != own; };
  if (!std::ranges::all_of(meant, elsewhere)) std::erase_if(meant, elsewhere);
  require(meant.empty(), "unknown setting '{}'; expected {}", one_line(key),
          fmt::join(meant, " or "));
  const auto near = nearest(key, keys);
  throw Error("unknown setting '{}'; {}", one_line(key),
              is_near(key, near) ? fmt::format("the nearest is '{}'", near)
                                 : "`shoal list settings` prints all");
}

Option option_of(const OptionList& options, const std::string& key, const Config& config) {
  for (const auto& option : options)
    if (option.key == key) return option;
  refuse_unknown(key, config);
}

// Sets the values of a table and its subtables, with dotted keys. The caller has handled `base`.
void set_table(Config& config, const OptionList& options, const std::string& prefix,
               const toml::table& table) {
  const auto* algo = prefix.empty() ? table.get("algo") : nullptr;
  if (algo != nullptr) read_value(*algo, option_of(options, "algo", config));  // see set_all()
  for (const auto& [name, node] : table) {
    const std::string key = prefix + std::string(name.str());
    if (const auto* inner = node.as_table())
      set_table(config, options, key + ".", *inner);
    else
      read_value(node, option_of(options, key, config));
  }
}

// A table whose "value" is the string `text`.
toml::table parse_word(const std::string& key, const std::string& text) {
  try {
    auto table = toml::parse("value = " + toml_text(text));
    if (table["value"].value<std::string>() == text) return table;
  } catch (const toml::parse_error&) {
  }
  throw Error("{}: found '{}', expected text in UTF-8", key, one_line(text));
}

// The same for a TOML value; any other text is a string.
toml::table parse_value(const std::string& key, const std::string& text) {
  require_flat(text, key);
  try {
    auto table = toml::parse("value = " + text);
    if (table.size() == 1 && text.find('\n') == std::string::npos) return table;
  } catch (const toml::parse_error&) {
  }
  return parse_word(key, text);
}

// The settings of a file, over those of its base.
Config config_of(const toml::table& table, const std::string& file) {
  Config config;
  try {
    if (const auto* base = table.get("base")) {
      std::string name;
      read_value("base", *base, name);
      if (!name.empty()) config = preset(name);
    }
    const auto task = config.env_id;
    set_table(config, options_of(config), "", table);
    if (!table.contains("stop_return")) forget_stop_return(config, task);
  } catch (const Error& e) {
    throw Error("{}: {}", file, e.what());
  }
  return config;
}

}  // namespace

std::string table_of_key(const std::string& key) {
  const auto dot = key.find('.');
  return dot == key.npos ? "" : key.substr(0, dot);
}

bool algo_has_table(const Config& config, const std::string& table) {
  if (table == "replay" || table == "off_policy") return is_off_policy(config);
  return table == config.algo || std::ranges::none_of(config.algos, [&](const auto& algo) {
           return table == algo->name();
         });
}

std::vector<std::string> setting_names_of(const std::string& name) {
  std::vector<std::string> names;
  for (const auto& [other, own] : kNamesOfOtherLibraries)
    if (name == other) names.emplace_back(own);
  return names;
}

std::vector<SettingDoc> setting_docs(const Config& config) {
  auto copy = config;
  std::vector<SettingDoc> docs;
  for (const auto& option : options_of(copy))
    docs.push_back({option.key, toml_text(option), option.doc});
  return docs;
}

std::vector<SettingChange> changed_settings(const Config& before, const Config& now) {
  const auto old = setting_docs(before), current = setting_docs(now);
  std::vector<SettingChange> changes;
  for (std::size_t i = 0; i < current.size(); ++i)
    if (old[i].value != current[i].value)
      changes.push_back({current[i].key, old[i].value, current[i].value});
  return changes;
}

void set(Config& config, const std::string& key, const std::string& value) {
  const auto option = option_of(options_of(config), key, config);
  const bool word = (std::holds_alternative<std::string*>(option.field) ||
                     std::holds_alternative<Choice>(option.field)) &&
                    !value.starts_with('"');
  const auto table = word ? parse_word(key, value) : parse_value(key, value);
  read_value(*table.get("value"), option);
}

void set_all(Config& config, const Settings& settings) {
  for (const bool algo : {true, false})
    for (const auto& [key, value] : settings)
      if ((key == "algo") == algo) set(config, key, value);
}

void forget_choice(Config& config, const std::set<std::string>& given) {
  if (config.sampler.kind != SamplerKind::kAuto || !given.contains("sampler.kind")) return;
  const auto defaults = Config().sampler;
  if (!given.contains("sampler.workers")) config.sampler.workers = defaults.workers;
  if (!given.contains("sampler.groups")) config.sampler.groups = defaults.groups;
}

bool forget_stop_return(Config& config, const std::string& task) {
  if (task.empty() || config.env_id == task || !std::isfinite(config.stop_return)) return false;
  config.stop_return = Config().stop_return;
  return true;
}

Config read_config(const std::filesystem::path& file) {
  return parse_config(read_file(file, kLargestToml), file.string());
}

Config read_config_for(const std::filesystem::path& file, const Settings& given) {
  const auto table = parse_toml(read_file(file, kLargestToml), file.string());
  const auto own = config_of(table, file.string());
  if (table.contains("base")) return own;
  auto asked = own;
  bool names_algo = table.contains("algo");
  set_all(asked, given);
  for (const auto& [key, value] : given) names_algo = names_algo || key == "algo";
  if (asked.env_id.empty()) return own;
  check_ranges(options_of(asked));
  auto config = default_config(asked, names_algo ? asked.algo : "");
  set_table(config, options_of(config), "", table);
  return config;
}

Config parse_config(const std::string& text, const std::string& file) {
  return config_of(parse_toml(text, file), file);
}

Config read_run_config(const std::filesystem::path& run) {
  const auto file = run / kConfigFile;
  std::error_code error;  // read_config() reports a file that cannot be read
  require(std::filesystem::exists(file, error) || error,
          "there is no file {}; expected a run folder, made by `shoal train --out`", file.string());
  return read_config(file);
}

std::string write_config(const Config& config) {
  std::string text = "# All settings of this run. `shoal train FILE` runs it again.\n", section;
  for (const auto& [key, value, doc] : setting_docs(config)) {
    const auto table = table_of_key(key);
    if (table != section) text += fmt::format("\n[{}]\n", section = table);
    const std::string line = fmt::format("{} = {}", name_in_table(key), value);
    text += fmt::format("{:<40} # {}\n", line, doc);
  }
  return text;
}

}  // namespace shoal
