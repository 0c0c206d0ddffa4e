#include "cli/sweep.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>
#include <set>
#include <sstream>

#include "cli/sweep_draws.h"
#include "cli/train_settings.h"
#include "runners/limits.h"
#include "runners/settings.h"
#include "runners/toml_limits.h"
#include "runners/toml_values.h"
#include "shoal/core/error.h"
#include "shoal/core/text.h"
#include "shoal/ipc/worker_group.h"
#include "shoal/runners/config.h"
#include "shoal/runners/device.h"
#include "shoal/runners/files.h"
#include "shoal/runners/run_folder.h"
#include "src/envs/construction.h"

namespace shoal::cli {
namespace {

const std::vector<std::string> kKeys = {"base",    "seeds", "cores",  "gpus", "all",
                                        "variant", "grid",  "random", "tune"};
constexpr std::int64_t kMostSeeds = 10'000;

// The settings of a table and its subtables, with dotted keys and unquoted strings.
void flatten(const std::string& prefix, const toml::table& table, Settings& settings) {
  for (const auto& [name, node] : table) {
    const auto key = prefix + std::string(name.str());
    if (const auto* inner = node.as_table()) {
      flatten(key + ".", *inner, settings);
    } else {
      settings.emplace_back(key, node_text(node));
    }
  }
}

int number(const toml::table& table, const std::string& key, int otherwise, int low) {
  const auto* node = table.get(key);
  if (node == nullptr) return otherwise;
  const auto value = node->value_exact<std::int64_t>();
  if (!value || *value < low || !std::in_range<int>(*value))
    refuse(key, *node, fmt::format("a whole number, {} or more", low));
  return static_cast<int>(*value);
}

// "3-7": first and last; "3": that one.
std::vector<std::int64_t> range_of_seeds(const std::string& text) {
  std::int64_t first = -1, last = -1;
  const auto dash = std::min(text.find('-'), text.size());
  const auto second = dash == text.size() ? 0 : dash + 1;
  const auto *begin = text.data(), *end = begin + text.size();
  const auto a = std::from_chars(begin, begin + dash, first);
  const auto b = std::from_chars(begin + second, end, last);
  require(a.ptr == begin + dash && b.ptr == end && 0 <= first && first <= last &&
              last - first < kMostSeeds,
          "seeds: found '{}', expected a range such as \"1-5\", of at most {} seeds",
          one_line(text), kMostSeeds);
  std::vector<std::int64_t> seeds;
  for (std::int64_t i = 0; i <= last - first; ++i) seeds.push_back(first + i);
  return seeds;
}

std::vector<std::int64_t> seeds_of(const toml::table& table) {
  if (const auto* range = table["seeds"].as_string()) return range_of_seeds(range->get());
  const auto* node = table.get("seeds");
  const std::string expected = "a list, e.g. [1, 2, 3], or a range, e.g. \"1-3\"";
  require(node != nullptr, "seeds: found none, expected {}", expected);
  const auto* list = node->as_array();
  if (list == nullptr || list->empty()) refuse("seeds", *node, expected);
  std::vector<std::int64_t> seeds;
  for (const auto& element : *list) {
    const auto seed = element.value_exact<std::int64_t>();
    if (!seed || *seed < 0) refuse("seeds", element, "whole numbers, 0 or more");
    seeds.push_back(*seed);
  }
  require(std::set(seeds.begin(), seeds.end()).size() == seeds.size(),
          "seeds: found a seed twice, expected each once: the run would be the same");
  return seeds;
}

const std::string* find_setting(const Settings& settings, const std::string& key) {
  const auto found = std::ranges::find(settings, key, &Settings::value_type::first);
  return found == settings.end() ? nullptr : &found->second;
}

// The name of the only variant.
std::string only_name(const std::string& base, const Settings& settings) {
  if (!base.empty()) return std::filesystem::path(base).stem().string();
  const auto* env = find_setting(settings, "env.id");
  return env == nullptr ? "run" : folder_name(*env);
}

Variants variants_of(const toml::table& table, const std::string& base) {
  for (const auto* key : {"all", "variant", "grid", "random", "tune"})
    if (const auto* node = table.get(key); node != nullptr && !node->is_table())
      refuse(key, *node, "a table");
  Settings all;
  if (const auto* shared = table["all"].as_table()) flatten("", *shared, all);
  Variants variants;
  if (const auto* own = table["variant"].as_table())
    for (const auto& [name, node] : *own) {
      require_folder_name(std::string(name.str()));
      if (!node.is_table())
        refuse(fmt::format("variant.{}", name.str()), node, "a table of settings");
      auto settings = all;
      flatten("", *node.as_table(), settings);
      variants.emplace_back(std::string(name.str()), std::move(settings));
    }
  if (variants.empty()) {
    variants.emplace_back(only_name(base, all), all);
    require_folder_name(variants[0].first);
  }
  return variants;
}

Halving halving_of(const toml::table& table) {
  for (const auto& [key, node] : table)
    require(key == "min_steps" || key == "max_steps" || key == "factor",
            "tune: found '{}', expected min_steps, max_steps or factor", one_line(key.str()));
  const auto whole = [&](const char* key, std::optional<std::int64_t> otherwise,
                         const Bounds& bounds) {
    return whole_number("tune", table, key, otherwise, bounds);
  };
  constexpr Bounds kFactor{2, 1000};
  const Halving halving{.min_steps = whole("min_steps", {}, kCount),
                        .max_steps = whole("max_steps", {}, kCount),
                        .factor = static_cast<int>(whole("factor", 3, kFactor))};
  require(halving.min_steps <= halving.max_steps,
          "tune: found min_steps = {} and max_steps = {}, expected the first not to be larger",
          halving.min_steps, halving.max_steps);
  return halving;
}

// The settings that a run begins with if the sweep has no base. The environment is made once for
// all runs that make it with the same settings.
class Defaults {
 public:
  Config of(const Settings& settings) {
    require(find_setting(settings, "env.id") != nullptr,
            "found neither base nor env.id; expected base = \"<a preset or a file>\", or env.id in "
            "[all]");
    Settings of_env;
    for (const auto& [key, value] : settings) {
      if (key == "algo" || is_of_env(key)) of_env.emplace_back(key, value);
    }
    const auto known = std::ranges::find(made_, of_env, &std::pair<Settings, Config>::first);
    if (known != made_.end()) return known->second;
    return made_.emplace_back(of_env, without_preset(settings)).second;
  }

 private:
  std::vector<std::pair<Settings, Config>> made_;
};

// A run of a variant, its configuration validated before any run starts.
SweepRun run_of(std::string base, const std::string& variant, Settings settings,
                Defaults& defaults) {
  try {
    for (const auto& [key, value] : settings)
      if (key == "base") base = value;  // the last, as for other settings
    std::erase_if(settings, [](const auto& setting) { return setting.first == "base"; });
    Config config = base.empty() ? defaults.of(settings) : preset_or_file(base, settings);
    const auto task = config.env_id;
    require(find_setting(settings, "seed") == nullptr,
            "found a setting 'seed'; give seeds in the list `seeds`");
    set_all(config, settings);
    if (find_setting(settings, "stop_return") == nullptr) forget_stop_return(config, task);
    validate(config);
    return {.variant = variant,
            .base = std::move(base),
            .settings = std::move(settings),
            .config = std::move(config),
            .folder = {}};
  } catch (const Error& e) {
    throw Error("{}: {}", variant, e.what());
  }
}

// Specs of environments. One is made for each set of settings.
class Specs {
 public:
  const EnvSpec& of(const Config& config) {
    std::string settings;
    for (const auto& [key, value, doc] : setting_docs(config))
      if (is_of_env(key)) settings += fmt::format("{} = {}\n", key, value);
    const auto known = seen_.find(settings);
    if (known != seen_.end()) return known->second;
    return seen_
        .emplace(settings, spec_of(make_env_factory(config), {}, config.sampler.reset_limit))
        .first->second;
  }

 private:
  std::map<std::string, EnvSpec> seen_;
};

}  // namespace

Sweep read_sweep(const std::filesystem::path& file, const std::filesystem::path& out) {
  return parse_sweep(read_file(file, kLargestToml), file.string(), out);
}

Sweep parse_sweep(const std::string& text, const std::string& file,
                  const std::filesystem::path& out) {
  const auto table = parse_toml(text, file);
  for (const auto& [key, node] : table)
    require(std::ranges::count(kKeys, key.str()) == 1,
            "{} has an unknown key '{}'; the nearest is '{}', and settings belong in [all]", file,
            one_line(key.str()), nearest(std::string(key.str()), kKeys));
  Sweep sweep{.cores = number(table, "cores", 1, 1),
              .gpus = number(table, "gpus", 0, 0),
              .halving = {},
              .runs = {}};
  std::string base;
  if (const auto* node = table.get("base")) read_value("base", *node, base);
  const auto allowed = allowed_cores().size();
  require(sweep.cores <= static_cast<int>(allowed),
          "cores: found {} per run, expected at most {}, which this process may use", sweep.cores,
          allowed);
  const int gpus = sweep.gpus > 0 ? count_gpus() : 0;
  require(sweep.gpus <= gpus,
          "gpus: found {}, expected at most {}, the number of GPUs of this machine", sweep.gpus,
          gpus);
  std::vector<SweepRun> variants;  // seeds and folders are set below
  if (const auto* tune = table["tune"].as_table()) sweep.halving = halving_of(*tune);
  auto named = variants_of(table, base);
  if (const auto* grid = table["grid"].as_table()) named = with_grid(named, *grid);
  if (const auto* random = table["random"].as_table()) named = with_draws(named, *random);
  Defaults defaults;
  std::set<std::filesystem::path> folders;
  for (const auto& [variant, settings] : named)
    variants.push_back(run_of(base, variant, settings, defaults));
  for (const auto seed : seeds_of(table))
    for (auto run : variants) {
      run.config.seed = static_cast<std::uint64_t>(seed);
      run.folder = out / fmt::format("{}-{}", run.variant, seed);
      require(folders.insert(run.folder).second,
              "{}: two runs have the folder {}; a grid has a value twice, or two variants one name",
              file, run.folder.string());
      sweep.runs.push_back(std::move(run));
    }
  return sweep;
}

std::string notes_of(const Sweep& sweep) {
  std::string notes;
  std::set<std::string> variants, said;
  for (const auto& run : sweep.runs) {
    if (!variants.insert(run.variant).second) continue;  // another seed
    std::istringstream lines(without_effect(run.config, keys_of(run.settings)));
    for (std::string line; std::getline(lines, line);)
      if (said.insert(line).second) notes += fmt::format("{}: {}\n", run.variant, line);
  }
  return notes;
}

void check_tasks(const Sweep& sweep) {
  Specs specs;
  std::set<std::string> checked;
  for (const auto& run : sweep.runs) {
    if (!checked.insert(run.variant).second) continue;  // another seed
    try {
      make_agent(run.config, specs.of(run.config));
    } catch (const Error& e) {
      throw Error("{}: {}", run.variant, e.what());
    }
  }
}

}  // namespace shoal::cli
