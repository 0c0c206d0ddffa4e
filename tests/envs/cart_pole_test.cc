#include "shoal/envs/cart_pole.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>

#include "shoal/core/error.h"
#include "tests/envs/env_player.h"

namespace shoal {
namespace {

CartPole& cart_pole(EnvPlayer& player) { return dynamic_cast<CartPole&>(*player.env); }
const float* floats(const EnvPlayer& player) {
  return reinterpret_cast<const float*>(player.observation.data());
}

CartPole::State read_state(std::istream& words) {
  CartPole::State state;
  for (double& x : state) {
    std::string word;
    words >> word;
    x = std::strtod(word.c_str(), nullptr);
  }
  return state;
}

TEST(CartPoleTest, EqualsGymnasium) {
  std::ifstream file(SHOAL_ORACLES "/cart_pole.txt");
  int episodes = 0, checked = 0;
  for (std::string line; std::getline(file, line); ++episodes) {
    std::istringstream words(line);
    EnvPlayer player(make_cart_pole());
    player.reset(1);
    cart_pole(player).set_state(read_state(words));
    StepResult last;
    bool expect_end = false;
    for (std::string word; words >> word;) {
      if (word == "T") {
        expect_end = true;
      } else if (word == "=") {
        const CartPole::State expected = read_state(words);
        for (int i = 0; i < 4; ++i)
          EXPECT_NEAR(floats(player)[i], expected[i], 1e-7) << "episode " << episodes;
        ++checked;
      } else {
        EXPECT_FALSE(last.terminated) << "episode " << episodes;
        last = player.step(word == "1");
        EXPECT_EQ(last.reward, 1);
      }
    }
    EXPECT_EQ(last.terminated, expect_end) << "episode " << episodes;
  }
  EXPECT_EQ(episodes, 8);
  EXPECT_GT(checked, 50);
}

TEST(CartPoleTest, TheLimitTruncatesAndAFallTerminates) {
  EnvPlayer player(make_cart_pole(3));
  player.reset(1);
  EXPECT_FALSE(player.step(0).truncated);
  EXPECT_FALSE(player.step(1).truncated);
  StepResult last = player.step(0);
  EXPECT_TRUE(last.truncated);
  EXPECT_FALSE(last.terminated);

  player.reset();
  player.step(0);
  player.step(1);
  cart_pole(player).set_state({2.39, 3, 0, 0});
  last = player.step(0);
  EXPECT_TRUE(last.terminated);
  EXPECT_FALSE(last.truncated) << "never both";
}

TEST(CartPoleTest, StartsFollowTheSeed) {
  EnvPlayer a(make_cart_pole()), b(make_cart_pole());
  a.reset(7);
  b.reset(7);
  EXPECT_EQ(a.observation, b.observation);
  for (int i = 0; i < 4; ++i) EXPECT_LE(std::abs(floats(a)[i]), 0.05F);
  b.reset(8);
  EXPECT_NE(a.observation, b.observation);
  const auto first = a.observation;
  a.reset();
  EXPECT_NE(a.observation, first);
}

TEST(CartPoleTest, ContinuesFromASavedState) {
  EnvPlayer a(make_cart_pole(30)), b(make_cart_pole(30));
  a.reset(3);
  a.step(1);
  std::vector<std::byte> bytes;
  ASSERT_TRUE(a.env->save(bytes));
  ASSERT_TRUE(b.env->load(bytes));
  for (int t = 0; t < 100; ++t) {
    const StepResult x = a.step(t % 2), y = b.step(t % 2);
    ASSERT_EQ(a.observation, b.observation);
    ASSERT_EQ(x.truncated, y.truncated);
    if (!x.terminated && !x.truncated) continue;
    a.reset();
    b.reset();
    ASSERT_EQ(a.observation, b.observation);
  }
  bytes.pop_back();
  EXPECT_THROW(b.env->load(bytes), Error);
}

TEST(CartPoleTest, RefusesWhatMakesNoSense) {
  EXPECT_THROW(make_cart_pole(0), Error);
  EnvPlayer player(make_cart_pole());
  player.reset(1);
  EXPECT_THROW(player.step(2), Error);
  EXPECT_THROW(player.step(-1), Error);
}

TEST(CartPoleTest, RendersThePole) {
  EnvPlayer player(make_cart_pole());
  player.reset(1);
  cart_pole(player).set_state({0, 0, 0, 0});
  Image image;
  ASSERT_TRUE(player.env->render(image));
  ASSERT_EQ(image.rgb.size(), 400U * 600 * 3);
  const auto red = [&](int y, int x) { return static_cast<int>(image.rgb[3 * (y * 600 + x)]); };
  EXPECT_EQ(red(10, 10), 255);    // sky
  EXPECT_EQ(red(295, 300), 0);    // cart
  EXPECT_EQ(red(200, 300), 202);  // pole, upright
  EXPECT_EQ(red(300, 10), 0);     // track
}

}  // namespace
}  // namespace shoal
