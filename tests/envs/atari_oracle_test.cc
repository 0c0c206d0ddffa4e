// Observations, rewards and ends against Gymnasium's AtariPreprocessing; see
// tests/oracles/atari.py.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "shoal/envs/atari.h"
#include "tests/envs/env_player.h"

namespace shoal {
namespace {

std::uint32_t crc32(const std::vector<std::byte>& bytes) {
  std::uint32_t crc = ~0U;
  for (const std::byte byte : bytes) {
    crc ^= static_cast<std::uint32_t>(byte);
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (crc & 1 ? 0xEDB88320U : 0);
  }
  return ~crc;
}

std::string word(const EnvPlayer& player, const StepResult& result = {}) {
  return fmt::format("{:04x}{}{}", crc32(player.observation) & 0xFFFF,
                     result.reward == 0 ? "" : fmt::format("{:+}", static_cast<int>(result.reward)),
                     result.terminated ? "T" : "");
}

struct Case {
  const char *id, *file;
  bool episodic_life = false;
};

class AtariOracleTest : public testing::TestWithParam<Case> {};

TEST_P(AtariOracleTest, EqualsGymnasium) {
  std::ifstream file(std::string(SHOAL_ORACLES "/") + GetParam().file + ".txt");
  EnvPlayer player(
      make_atari(GetParam().id, {.noop_max = 0, .episodic_life = GetParam().episodic_life}));
  OracleActions actions;
  bool begin = true;
  int words = 0;
  for (std::string expected; file >> expected; ++words) {
    if (begin) {
      player.reset(words == 0 ? std::optional<std::uint64_t>(0) : std::nullopt);
      ASSERT_EQ(word(player), expected) << "word " << words;
      begin = false;
      continue;
    }
    const StepResult result = player.step(actions.next(player.actions()));
    ASSERT_EQ(word(player, result), expected) << "word " << words;
    begin = result.terminated && !result.life_lost;
  }
  EXPECT_GT(words, 200);
}

INSTANTIATE_TEST_SUITE_P(
    Games, AtariOracleTest,
    testing::Values(Case{"ALE/Pong-v5", "atari_pong"}, Case{"ALE/Breakout-v5", "atari_breakout"},
                    Case{"ALE/Breakout-v5", "atari_breakout_lives", true},
                    Case{"ALE/Seaquest-v5", "atari_seaquest"},
                    Case{"ALE/Seaquest-v5", "atari_seaquest_lives", true},
                    Case{"ALE/Adventure-v5", "atari_adventure"}),  // 250 lines: the float path
    [](const auto& test) { return test.param.file; });

}  // namespace
}  // namespace shoal
