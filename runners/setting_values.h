#pragma once

#include <fmt/ranges.h>

// toml++ 3.3 asserts that a key begins as keys do, and refuses what does not (`[+a]`) just behind.
#define TOML_ASSERT(expr) static_cast<void>(0)
#include <toml++/toml.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <concepts>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "shoal/agents/q_agent.h"
#include "shoal/algos/ppo.h"
#include "shoal/core/error.h"
#include "shoal/core/trajectory_ring.h"
#include "shoal/core/worker_group.h"
#include "shoal/models/actor_critic.h"
#include "shoal/samplers/sampler.h"
#include "shoal/sync/ranks.h"

namespace shoal {

// The names of an enumeration's values, in files and on the command line.
inline constexpr std::pair<const char*, SamplerKind> kSamplerKinds[] = {
    {"serial", SamplerKind::kSerial},
    {"parallel-cpu", SamplerKind::kParallelCpu},
    {"parallel-gpu", SamplerKind::kParallelGpu}};
inline constexpr std::pair<const char*, Precision> kPrecisions[] = {
    {"float32", Precision::kFloat32}, {"bf16", Precision::kBf16}};

inline constexpr std::pair<const char*, ResetMode> kResetModes[] = {{"at-once", ResetMode::kAtOnce},
                                                                    {"wait", ResetMode::kWait}};

inline constexpr std::pair<const char*, OnDeath> kOnDeaths[] = {{"fail", OnDeath::kFail},
                                                                {"restart", OnDeath::kRestart}};
inline constexpr std::pair<const char*, TooOld> kTooOlds[] = {{"use", TooOld::kUse},
                                                              {"drop", TooOld::kDrop}};
inline constexpr std::pair<const char*, OptimizerKind> kOptimizers[] = {
    {"adam", OptimizerKind::kAdam}, {"rmsprop", OptimizerKind::kRmsProp}};
inline constexpr std::pair<const char*, NormalizeAdvantage> kNormalizations[] = {
    {"none", NormalizeAdvantage::kNone},
    {"window", NormalizeAdvantage::kWindow},
    {"minibatch", NormalizeAdvantage::kMinibatch}};

inline constexpr std::pair<const char*, MemoryKind> kMemories[] = {
    {"none", MemoryKind::kNone}, {"lstm", MemoryKind::kLstm}, {"gru", MemoryKind::kGru}};
inline constexpr std::pair<const char*, ReturnKind> kReturnKinds[] = {
    {"mean", ReturnKind::kMean},
    {"categorical", ReturnKind::kCategorical},
    {"quantile", ReturnKind::kQuantile}};

inline constexpr std::pair<const char*, RankBackend> kRankBackends[] = {
    {"auto", RankBackend::kAuto},
    {"tcp", RankBackend::kTcp},
    {"mpi", RankBackend::kMpi},
    {"nccl", RankBackend::kNccl}};

inline const auto& names_of(RankBackend) { return kRankBackends; }
inline const auto& names_of(MemoryKind) { return kMemories; }
inline const auto& names_of(ReturnKind) { return kReturnKinds; }
inline const auto& names_of(OptimizerKind) { return kOptimizers; }
inline const auto& names_of(NormalizeAdvantage) { return kNormalizations; }
inline const auto& names_of(ResetMode) { return kResetModes; }
inline const auto& names_of(OnDeath) { return kOnDeaths; }
inline const auto& names_of(TooOld) { return kTooOlds; }
inline const auto& names_of(SamplerKind) { return kSamplerKinds; }
inline const auto& names_of(Precision) { return kPrecisions; }

template <class T>
concept NamedEnum = requires(T value) {
  names_of(value);
};

// Throws Error, naming the file and the line, if it is no TOML.
toml::table parse_toml(const std::string& text, const std::string& file);

std::string describe(const toml::node& node);

// Throws Error: "<key>: found <node>, expected <expected>".
[[noreturn]] void refuse(const std::string& key, const toml::node& node,
                         const std::string& expected);

inline void read_value(const std::string& key, const toml::node& node, bool& to) {
  if (!node.is_boolean()) refuse(key, node, "true or false");
  to = **node.as_boolean();
}

inline void read_value(const std::string& key, const toml::node& node, std::string& to) {
  if (!node.is_string()) refuse(key, node, "a word in quotes");
  const std::string& word = **node.as_string();
  if (word.find('\0') != std::string::npos) refuse(key, node, "a word without a zero byte");
  to = word;
}

inline void read_value(const std::string& key, const toml::node& node, double& to) {
  if (!node.is_number()) refuse(key, node, "a number");
  // A whole number that no double is equal to is rounded, which value<double>() refuses to do.
  to = node.is_integer() ? static_cast<double>(**node.as_integer()) : **node.as_floating_point();
  if (std::isnan(to)) refuse(key, node, "a number");
}

// Numbers above 2^63 - 1 do not exist in TOML.
template <std::integral T>
void read_value(const std::string& key, const toml::node& node, T& to) {
  if (!node.is_integer()) refuse(key, node, "a whole number");
  const std::int64_t value = **node.as_integer();
  if (!std::in_range<T>(value))
    refuse(key, node, std::is_unsigned_v<T> ? "a whole number, 0 or more" : "a smaller number");
  to = static_cast<T>(value);
}

inline void read_value(const std::string& key, const toml::node& node,
                       std::vector<std::int64_t>& to) {
  if (!node.is_array()) refuse(key, node, "a list of whole numbers, e.g. [64, 64]");
  std::vector<std::int64_t> read;
  for (const auto& element : *node.as_array()) {
    if (!element.is_integer()) refuse(key, node, "a list of whole numbers, e.g. [64, 64]");
    read.push_back(**element.as_integer());
  }
  to = std::move(read);
}

inline void read_value(const std::string& key, const toml::node& node,
                       std::chrono::milliseconds& to) {
  double seconds = 0;
  read_value(key, node, seconds);
  if (seconds <= 0 || seconds > 1e9) refuse(key, node, "seconds above 0");
  to = std::chrono::milliseconds(std::max(1LL, std::llround(seconds * 1000)));
}

template <NamedEnum T>
void read_value(const std::string& key, const toml::node& node, T& to) {
  std::string expected;
  for (const auto& [name, value] : names_of(to)) {
    if (node.is_string() && **node.as_string() == name) {
      to = value;
      return;
    }
    expected += (expected.empty() ? "" : " or ") + std::string(name);
  }
  refuse(key, node, expected);
}

// The value as TOML.
inline std::string toml_text(bool value) { return value ? "true" : "false"; }
template <std::integral T>
std::string toml_text(T value) {
  return fmt::format("{}", value);
}
std::string toml_text(double value);
std::string toml_text(const std::string& value);
inline std::string toml_text(const std::vector<std::int64_t>& value) {
  return fmt::format("[{}]", fmt::join(value, ", "));
}
inline std::string toml_text(std::chrono::milliseconds value) {
  return toml_text(static_cast<double>(value.count()) / 1000);
}
template <NamedEnum T>
std::string toml_text(T value) {
  for (const auto& [name, named] : names_of(value))
    if (named == value) return toml_text(std::string(name));
  throw std::logic_error("an enumeration value without a name");
}

}  // namespace shoal
