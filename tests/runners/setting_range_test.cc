#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "shoal/core/error.h"
#include "shoal/core/text.h"
#include "shoal/runners/config.h"
#include "shoal/runners/train.h"
#include "tests/runners/temporary_folder.h"
#include "tests/support/message_of.h"

namespace shoal {
namespace {

const std::string kLongText(10'000, 'x');

// Texts that are invalid for any number, list or enumeration.
const std::vector<std::string> kNeverNumbers = {"inf",
                                                "-inf",
                                                "nan",
                                                "1e308",
                                                "-1e308",
                                                "9223372036854775807",  // 2^63 - 1
                                                "-9223372036854775808",
                                                "4611686018427387904",  // 2^62
                                                "-4611686018427387904",
                                                "9007199254740993",  // 2^53 + 1
                                                "1000000000000000000000",
                                                "",
                                                kLongText,
                                                "\xff\xfe\x80",
                                                "[1, 2, 9223372036854775807]",
                                                "[-1]",
                                                "{a = 1}"};

// A short training that reads the setting.
Config reader_of(const std::string& key) {
  const auto table = key.substr(0, key.find('.'));
  const auto all = presets();
  const auto is = [&](const std::string& name) {
    return std::ranges::any_of(all, [&](const Preset& preset) { return preset.name == name; });
  };
  std::string name = "cartpole-ppo";
  for (const auto* task : {"cartpole-", "pendulum-"})
    if (is(task + table)) name = task + table;
  if (table == "replay" || table == "off_policy") name = "cartpole-dqn";
  if (table == "async") name = "cartpole-appo";
  Config config = preset(name);
  config.sampler.kind = SamplerKind::kSerial;
  config.sampler.horizon = 4;
  config.sampler.envs = 8;
  config.asynchronous = false;
  config.model.hidden = {8};
  config.off_policy.learning_starts = 32;
  config.replay.size = 1024;
  for (const auto* algo : {"dqn", "r2d1", "ddpg", "td3", "sac"})
    set(config, fmt::format("{}.batch", algo), "8");
  set(config, "ppo.minibatches", "1");
  set(config, "r2d1.burn_in", "1");
  set(config, "r2d1.length", "8");
  config.steps = 64, config.schedule_steps = 0;
  config.threads = 1;
  return config;
}

// The error message for the value; "" if it is accepted. Only an Error is a message for users.
std::string refusal(Config& config, const std::string& key, const std::string& value) {
  try {
    set(config, key, value);
    validate(config);
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

bool is_number(const SettingDoc& setting) {
  return !setting.value.starts_with('"') && setting.value != "true" && setting.value != "false" &&
         !setting.value.starts_with('[');
}

void expect_sentence(const std::string& key, const std::string& said) {
  EXPECT_NE(said.find(key), std::string::npos) << said;
  EXPECT_EQ(one_line(said, 400), said) << "one line of UTF-8 that is not too long";
}

TEST(SettingRange, NoSettingTakesWhatCannotBeMeant) {
  for (const auto& setting : setting_docs())
    for (const auto& value : kNeverNumbers) {
      SCOPED_TRACE(setting.key + " = " + value.substr(0, 40));
      Config config = reader_of(setting.key);
      const auto said = refusal(config, setting.key, value);
      if (!said.empty()) {
        expect_sentence(setting.key, said);
      } else if (is_number(setting)) {
        const bool any_natural = setting.key == "seed" || setting.key == "async.max_lag";
        EXPECT_TRUE(setting.key == "stop_return" || (any_natural && value[0] != '-'));
      }
    }
}

// Values at the edges of a range either train or are rejected with an error message.
TEST(SettingRange, WhatIsAcceptedCanBeTrainedWith) {
  const TemporaryFolder folder;
  int trained = 0;
  for (const auto& setting : setting_docs())
    for (const auto* value : {"0", "-1", "9223372036854775807"}) {
      SCOPED_TRACE(setting.key + " = " + value);
      Config config = reader_of(setting.key);
      if (!refusal(config, setting.key, value).empty()) continue;
      try {
        train(config, folder / std::to_string(++trained), {.quiet = true});
      } catch (const Error& e) {
        expect_sentence("", e.what());
      }
    }
  EXPECT_GT(trained, 50);
}

TEST(SettingRange, SaysWhatWasFoundAndWhatIsExpected) {
  for (const auto& [key, value, said] : std::vector<std::array<std::string, 3>>{
           {"r2d1.length", "4611686018427387904", "4611686018427387904, expected 1 to 1000000"},
           {"replay.size", "9223372036854775807",
            "9223372036854775807, expected 1 to 1099511627776"},
           {"off_policy.replay_ratio", "1e18", "1e+18, expected above 0 and at most 1000000"},
           {"replay.alpha", "60", "60.0, expected 0 to 1"},
           {"ppo.value_coef", "inf", "inf, expected 0 to 1000000000"},
           {"sampler.decorrelation", "9223372036854775807",
            "9223372036854775807, expected 0 to 1000000"},
           {"ppo.learning_rate", "1e30", "1e+30, expected above 0 and at most 1000000"},
           {"model.hidden", "[8, 0]",
            "[8, 0], expected at most 1000 numbers, each of them 1 to 4294967296"},
           {"device", "x\n\xff", "'x\n\xff', expected text in UTF-8"}}) {
    Config config = preset("cartpole-ppo");
    EXPECT_EQ(refusal(config, key, value),
              key + ": found " + (key == "device" ? "'x ?', expected text in UTF-8" : said));
  }
}

TEST(SettingRange, UpdatesOfARolloutCanBeCounted) {
  Config config = preset("cartpole-dqn");
  config.off_policy.replay_ratio = 1e6;
  EXPECT_EQ(refusal(config, "sampler.horizon", "1"), "");
  EXPECT_NE(refusal(config, "sampler.horizon", "1000").find("off_policy.replay_ratio"),
            std::string::npos);
}

}  // namespace
}  // namespace shoal
