#include "shoal/runners/config.h"

#include <algorithm>
#include <sstream>
#include <system_error>

#include "runners/setting_values.h"
#include "runners/settings.h"
#include "runners/toml_limits.h"
#include "shoal/core/text.h"
#include "shoal/runners/checkpoint.h"

namespace shoal {

std::string describe(const toml::node& node) {
  if (node.is_table()) return "a table";
  std::ostringstream text;
  if (const auto* word = node.as_string())
    text << '\'' << word->get() << '\'';
  else
    text << toml::node_view<const toml::node>(node);
  return one_line(text.str());
}

void refuse(const std::string& key, const toml::node& node, const std::string& expected) {
  throw Error("{}: found {}, expected {}", key, describe(node), expected);
}

std::string toml_text(double value) {
  std::string text = fmt::format("{}", value);  // the shortest text that reads back the same
  // TOML has floats with a point or an exponent only.
  if (text.find_first_of(".einf") == std::string::npos) text += ".0";
  return text;
}

std::string toml_text(const std::string& value) {
  std::ostringstream text;
  const toml::value<std::string> node(value);
  text << toml::toml_formatter(node, toml::format_flags::none);
  return text.str();
}

namespace {

constexpr std::pair<const char*, const char*> kRenamed[] = {{"preset", "base"}};

[[noreturn]] void refuse_unknown(const std::string& key) {
  for (const auto& [before, now] : kRenamed)
    require(key != before, "the setting '{}' is called '{}' now", before, now);
  std::vector<std::string> keys;
  for (const auto& setting : setting_docs()) keys.push_back(setting.key);
  throw Error("there is no setting '{}'; the nearest is '{}'", one_line(key), nearest(key, keys));
}

void set_node(Config& config, const std::string& key, const toml::node& node) {
  bool found = false;
  visit_settings(config, [&](const char* known, auto& field, const char*, auto...) {
    if (key != known) return;
    found = true;
    read_value(key, node, field);
  });
  if (!found) refuse_unknown(key);
}

// Settings of a table and of the tables in it, with dotted keys. `base` was dealt with before.
void set_table(Config& config, const std::string& prefix, const toml::table& table) {
  for (const auto& [name, node] : table) {
    const std::string key = prefix + std::string(name.str());
    if (const auto* inner = node.as_table())
      set_table(config, key + ".", *inner);
    else
      set_node(config, key, node);
  }
}

}  // namespace

toml::table parse_toml(const std::string& text, const std::string& file) {
  require_flat(text, file);
  try {
    return toml::parse(text, file);
  } catch (const toml::parse_error& e) {
    throw Error("{} is not valid TOML, line {}: {}", file, e.source().begin.line,
                one_line(e.description(), 300));
  }
}

namespace {

// A table whose "value" is `text` as a word.
toml::table parse_word(const std::string& key, const std::string& text) {
  try {
    auto table = toml::parse("value = " + toml_text(text));
    if (table["value"].value<std::string>() == text) return table;
  } catch (const toml::parse_error&) {
  }
  throw Error("{}: found '{}', expected text in UTF-8", key, one_line(text));
}

// The same for a TOML value; other text is taken for a word.
toml::table parse_value(const std::string& key, const std::string& text) {
  require_flat(text, key);
  try {
    auto table = toml::parse("value = " + text);
    if (table.size() == 1 && text.find('\n') == std::string::npos) return table;
  } catch (const toml::parse_error&) {
  }
  return parse_word(key, text);
}

}  // namespace

std::vector<SettingDoc> setting_docs(const Config& config) {
  std::vector<SettingDoc> docs;
  visit_settings(config, [&](const char* key, const auto& field, const char* doc, auto...) {
    docs.push_back({key, toml_text(field), doc});
  });
  return docs;
}

void set(Config& config, const std::string& key, const std::string& value) {
  bool found = false;
  visit_settings(config, [&](const char* known, auto& field, const char*, auto...) {
    if (key != known) return;
    found = true;
    using Field = std::remove_cvref_t<decltype(field)>;
    constexpr bool kWord = std::is_same_v<Field, std::string> || NamedEnum<Field>;
    const bool word = kWord && !value.starts_with('"');
    const auto table = word ? parse_word(key, value) : parse_value(key, value);
    read_value(key, *table.get("value"), field);
  });
  if (!found) refuse_unknown(key);
}

Config read_config(const std::filesystem::path& file) {
  return parse_config(read_file(file, kLargestToml), file.string());
}

Config parse_config(const std::string& text, const std::string& file) {
  const auto table = parse_toml(text, file);
  Config config;
  try {
    if (const auto* base = table.get("base")) {
      std::string name;
      read_value("base", *base, name);
      if (!name.empty()) config = preset(name);
    }
    set_table(config, "", table);
  } catch (const Error& e) {
    throw Error("{}: {}", file, e.what());
  }
  return config;
}

Config read_run_config(const std::filesystem::path& run) {
  const auto file = run / kConfigFile;
  std::error_code error;  // what is there but cannot be read is read_config()'s to tell
  require(std::filesystem::exists(file, error) || error,
          "there is no file {}; expected a run folder, made by `shoal train --out`", file.string());
  return read_config(file);
}

std::string write_config(const Config& config) {
  std::string text = "# All settings of this run. `shoal train FILE` runs it again.\n", section;
  for (const auto& [key, value, doc] : setting_docs(config)) {
    const auto dot = key.find('.');
    const std::string table = dot == std::string::npos ? "" : key.substr(0, dot);
    if (table != section) text += fmt::format("\n[{}]\n", section = table);
    const std::string line =
        fmt::format("{} = {}", table.empty() ? key : key.substr(dot + 1), value);
    text += fmt::format("{:<40} # {}\n", line, doc);
  }
  return text;
}

}  // namespace shoal
