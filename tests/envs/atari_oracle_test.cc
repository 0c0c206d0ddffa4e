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

// The observation in Gymnasium's order: [height, width, 3] if it is in colour.
std::vector<std::byte> observed(const EnvPlayer& player) {
  const ArraySpec& spec = player.env->spec().observation[0];
  if (spec.shape.size() == 2) return player.observation;
  const std::size_t planes = spec.shape[0], pixels = spec.bytes() / planes;
  std::vector<std::byte> interleaved(spec.bytes());
  for (std::size_t i = 0; i < interleaved.size(); ++i)
    interleaved[i] = player.observation[i % planes * pixels + i / planes];
  return interleaved;
}

std::string word(const EnvPlayer& player, const StepResult& result = {}) {
  return fmt::format("{:04x}{}{}", crc32(observed(player)) & 0xFFFF,
                     result.reward == 0 ? "" : fmt::format("{:+}", static_cast<int>(result.reward)),
                     result.terminated ? "T" : "");
}

struct Case {
  const char *id, *file;
  AtariOptions options = {};
};

class AtariOracleTest : public testing::TestWithParam<Case> {};

TEST_P(AtariOracleTest, EqualsGymnasium) {
  std::ifstream file(std::string(SHOAL_ORACLES "/") + GetParam().file + ".txt");
  AtariOptions options = GetParam().options;
  options.noop_max = 0;
  EnvPlayer player(make_atari(GetParam().id, options));
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
    testing::Values(Case{"ALE/Pong-v5", "atari_pong"},
                    Case{"ALE/Pong-v5", "atari_pong_rgb", {.rgb = true}},
                    Case{"ALE/Pong-v5", "atari_pong_96", {.screen = 96}},
                    Case{"ALE/Breakout-v5", "atari_breakout"},
                    Case{"ALE/Breakout-v5", "atari_breakout_lives", {.episodic_life = true}},
                    Case{"ALE/Breakout-v5", "atari_breakout_rgb", {.rgb = true}},
                    Case{"ALE/Seaquest-v5", "atari_seaquest"},
                    Case{"ALE/Seaquest-v5", "atari_seaquest_lives", {.episodic_life = true}},
                    Case{"ALE/Adventure-v5", "atari_adventure"},  // 250 lines: the float path
                    Case{"ALE/Adventure-v5", "atari_adventure_rgb", {.rgb = true}}),
    [](const auto& test) { return test.param.file; });

}  // namespace
}  // namespace shoal
