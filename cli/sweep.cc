#include "cli/sweep.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <set>

#include "runners/toml_limits.h"
#include "runners/toml_values.h"
#include "shoal/core/error.h"
#include "shoal/core/text.h"
#include "shoal/ipc/worker_group.h"
#include "shoal/runners/checkpoint.h"
#include "shoal/runners/config.h"
#include "shoal/runners/device.h"

namespace shoal::cli {
namespace {

const std::vector<std::string> kKeys = {"base", "seeds", "cores", "gpus", "all", "variant"};

// The settings of a table and its subtables, with dotted keys and unquoted strings.
void flatten(const std::string& prefix, const toml::table& table, SweepSettings& settings) {
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

std::vector<std::int64_t> seeds_of(const toml::table& table) {
  const auto* list = table["seeds"].as_array();
  require(list != nullptr && !list->empty(), "seeds: expected a list, e.g. seeds = [1, 2, 3]");
  std::vector<std::int64_t> seeds;
  for (const auto& element : *list) {
    const auto seed = element.value_exact<std::int64_t>();
    require(seed && *seed >= 0, "seeds: expected whole numbers, 0 or more");
    seeds.push_back(*seed);
  }
  require(std::set(seeds.begin(), seeds.end()).size() == seeds.size(),
          "seeds: found a seed twice, expected each once: the run would be the same");
  return seeds;
}

// A run's folder is <variant>-<seed>.
void require_folder_name(const std::string& variant) {
  constexpr std::size_t kLongest = 200;
  const bool plain = std::ranges::none_of(
      variant, [](char c) { return c == '/' || std::iscntrl(static_cast<unsigned char>(c)) != 0; });
  require(plain && !variant.empty() && variant.size() <= kLongest,
          "variant.{}: expected a name of 1 to {} bytes without '/' and control characters: it "
          "names a folder",
          one_line(variant), kLongest);
}

std::vector<std::pair<std::string, SweepSettings>> variants_of(const toml::table& table,
                                                               const std::string& base) {
  for (const auto* key : {"all", "variant"})
    require(!table.contains(key) || table[key].is_table(), "{}: expected a table", key);
  SweepSettings all;
  if (const auto* shared = table["all"].as_table()) flatten("", *shared, all);
  std::vector<std::pair<std::string, SweepSettings>> variants;
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
    variants.emplace_back(std::filesystem::path(base).stem().string(), all);
    require_folder_name(variants[0].first);
  }
  return variants;
}

// The configuration of a variant, validated before any run starts.
Config config_of(const std::string& base, const std::string& variant,
                 const SweepSettings& settings) {
  try {
    Config config = preset_or_file(base);
    for (const auto& [key, value] : settings) {
      require(key != "seed", "found a setting 'seed'; give seeds in the list `seeds`");
      set(config, key, value);
    }
    validate(config);
    return config;
  } catch (const Error& e) {
    throw Error("{}: {}", variant, e.what());
  }
}

}  // namespace

Sweep read_sweep(const std::filesystem::path& file, const std::filesystem::path& out) {
  return parse_sweep(read_file(file, kLargestToml), file.string(), out);
}

Sweep parse_sweep(const std::string& text, const std::string& file,
                  const std::filesystem::path& out) {
  const auto table = parse_toml(text, file);
  for (const auto& [key, node] : table)
    require(std::ranges::count(kKeys, key.str()) == 1,
            "{} has an unknown key '{}'; the nearest is '{}'", file, one_line(key.str()),
            nearest(std::string(key.str()), kKeys));
  require(table.contains("base"), "{} has no base; expected base = \"<a preset or a file>\"", file);
  Sweep sweep{.base = {},
              .cores = number(table, "cores", 1, 1),
              .gpus = number(table, "gpus", 0, 0),
              .runs = {}};
  read_value("base", *table.get("base"), sweep.base);
  const auto allowed = allowed_cores().size();
  require(sweep.cores <= static_cast<int>(allowed),
          "cores: found {} per run, expected at most {}, which this process may use", sweep.cores,
          allowed);
  const int gpus = sweep.gpus > 0 ? count_gpus() : 0;
  require(sweep.gpus <= gpus,
          "gpus: found {}, expected at most {}, the number of GPUs of this machine", sweep.gpus,
          gpus);
  std::vector<SweepRun> variants;  // seeds and folders are set below
  for (const auto& [variant, settings] : variants_of(table, sweep.base))
    variants.push_back({.variant = variant,
                        .settings = settings,
                        .config = config_of(sweep.base, variant, settings),
                        .folder = {}});
  for (const auto seed : seeds_of(table))
    for (auto run : variants) {
      run.config.seed = static_cast<std::uint64_t>(seed);
      run.folder = out / fmt::format("{}-{}", run.variant, seed);
      sweep.runs.push_back(std::move(run));
    }
  return sweep;
}

}  // namespace shoal::cli
