#include "shoal/envs/classic_control.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <numbers>
#include <sstream>
#include <string>

#include "shoal/core/error.h"
#include "src/envs/classic/acrobot.h"
#include "src/envs/classic/cart_pole.h"
#include "src/envs/classic/mountain_car.h"
#include "src/envs/classic/pendulum.h"
#include "tests/envs/env_player.h"

namespace shoal {
namespace {

// A task under test.
template <class P, EnvFactory (*kMake)(int)>
struct Task {
  using Physics = P;
  static EnvFactory make(int time_limit = 200) { return kMake(time_limit); }
  static ClassicControl<P>& env(EnvPlayer& player) {
    return dynamic_cast<ClassicControl<P>&>(*player.env);
  }
};

template <class T>
class ClassicControlTest : public testing::Test {
 protected:
  static StepResult act(EnvPlayer& player, double action) {
    const bool discrete = player.env->spec().action[0].kind == ActionSpec::Kind::kDiscrete;
    return discrete ? player.step(static_cast<std::int64_t>(action))
                    : player.push(static_cast<float>(action));
  }
  // The action varies from step to step.
  static StepResult act_somehow(EnvPlayer& player, int t) { return act(player, t % 3 == 0); }
  static const float* floats(const EnvPlayer& player) {
    return reinterpret_cast<const float*>(player.observation.data());
  }
};

using Tasks = testing::Types<Task<CartPole, make_cart_pole>, Task<Acrobot, make_acrobot>,
                             Task<MountainCar, make_mountain_car>,
                             Task<MountainCarContinuous, make_mountain_car_continuous>,
                             Task<Pendulum, make_pendulum>>;
struct Names {
  template <class T>
  static std::string GetName(int) {  // NOLINT(readability-identifier-naming): GoogleTest's word
    return T::Physics::spec().id;
  }
};
TYPED_TEST_SUITE(ClassicControlTest, Tasks, Names);

double next_number(std::istream& words) {
  std::string word;
  words >> word;
  return std::strtod(word.c_str(), nullptr);
}

TYPED_TEST(ClassicControlTest, EqualsGymnasium) {
  const auto id = TypeParam::Physics::spec().id;
  std::ifstream file(SHOAL_ORACLES "/" + id + ".txt");
  int episodes = 0, checked = 0;
  for (std::string line; std::getline(file, line); ++episodes) {
    std::istringstream words(line);
    EnvPlayer player(TypeParam::make());
    player.reset(1);
    typename TypeParam::Physics::State start;
    for (double& x : start) x = next_number(words);
    TypeParam::env(player).set_state(start);
    StepResult last;
    bool expect_end = false;
    for (std::string word; words >> word;) {
      if (word == "T") {
        expect_end = true;
      } else if (word == "=") {
        for (std::int64_t i = 0; i < player.env->spec().observation[0].count(); ++i)
          EXPECT_NEAR(this->floats(player)[i], next_number(words), 1e-6) << "episode " << episodes;
        EXPECT_NEAR(last.reward, next_number(words), 1e-6) << "episode " << episodes;
        ++checked;
      } else {
        EXPECT_FALSE(last.terminated) << "episode " << episodes;
        last = this->act(player, std::strtod(word.c_str(), nullptr));
      }
    }
    EXPECT_EQ(last.terminated, expect_end) << "episode " << episodes;
  }
  EXPECT_EQ(episodes, 8);
  EXPECT_GT(checked, 50);
}

TYPED_TEST(ClassicControlTest, TheLimitTruncates) {
  EnvPlayer player(TypeParam::make(3));
  player.reset(1);
  EXPECT_FALSE(this->act_somehow(player, 0).truncated);
  EXPECT_FALSE(this->act_somehow(player, 1).truncated);
  const StepResult last = this->act_somehow(player, 2);
  EXPECT_TRUE(last.truncated);
  EXPECT_FALSE(last.terminated);
  player.reset();
  EXPECT_FALSE(this->act_somehow(player, 0).truncated) << "counted anew";
  EXPECT_THROW(TypeParam::make(0), Error);
}

TYPED_TEST(ClassicControlTest, StartsFollowTheSeed) {
  EnvPlayer a(TypeParam::make()), b(TypeParam::make());
  a.reset(7);
  b.reset(7);
  EXPECT_EQ(a.observation, b.observation);
  b.reset(8);
  EXPECT_NE(a.observation, b.observation);
  const auto first = a.observation;
  a.reset();
  EXPECT_NE(a.observation, first);
}

TYPED_TEST(ClassicControlTest, ContinuesFromASavedState) {
  EnvPlayer a(TypeParam::make(30)), b(TypeParam::make(30));
  a.reset(3);
  this->act_somehow(a, 0);
  std::vector<std::byte> bytes;
  ASSERT_TRUE(a.env->save(bytes));
  ASSERT_TRUE(b.env->load(bytes));
  for (int t = 0; t < 100; ++t) {
    const StepResult x = this->act_somehow(a, t), y = this->act_somehow(b, t);
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

TYPED_TEST(ClassicControlTest, KeepsToItsSpec) {
  EnvPlayer player(TypeParam::make(200));
  const auto& spec = player.env->spec();
  const auto low = static_cast<float>(spec.observation[0].low);
  const auto high = static_cast<float>(spec.observation[0].high);
  player.reset(1);
  for (int t = 0; t < 2000; ++t) {
    const StepResult result = this->act_somehow(player, t);
    for (std::int64_t i = 0; i < spec.observation[0].count(); ++i) {
      ASSERT_GE(this->floats(player)[i], low);
      ASSERT_LE(this->floats(player)[i], high);
    }
    if (result.terminated || result.truncated) player.reset();
  }
}

TYPED_TEST(ClassicControlTest, RefusesActionsThatDoNotExist) {
  EnvPlayer player(TypeParam::make());
  const auto& action = player.env->spec().action[0];
  if (action.kind != ActionSpec::Kind::kDiscrete) return;
  player.reset(1);
  EXPECT_THROW(player.step(action.choices[0]), Error);
  EXPECT_THROW(player.step(-1), Error);
}

ClassicControl<CartPole>& cart_pole(EnvPlayer& player) {
  return dynamic_cast<ClassicControl<CartPole>&>(*player.env);
}

TEST(CartPoleTest, AFallInTheLastStepTerminates) {
  EnvPlayer player(make_cart_pole(3));
  player.reset(1);
  player.step(0);
  player.step(1);
  cart_pole(player).set_state({2.39, 3, 0, 0});
  const StepResult last = player.step(0);
  EXPECT_TRUE(last.terminated);
  EXPECT_FALSE(last.truncated) << "never both";
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
  EXPECT_EQ(red(310, 285), 0);    // cart
  EXPECT_EQ(red(292, 300), 129);  // axle
  EXPECT_EQ(red(200, 300), 202);  // pole, upright
  EXPECT_EQ(red(300, 10), 0);     // track
}

// Most of an image is white, and moving objects change their position.
TYPED_TEST(ClassicControlTest, DrawsWhatMoves) {
  EnvPlayer player(TypeParam::make());
  player.reset(1);
  Image before, after;
  ASSERT_TRUE(player.env->render(before));
  for (int t = 0; t < 5; ++t) this->act_somehow(player, t);
  ASSERT_TRUE(player.env->render(after));
  ASSERT_EQ(before.rgb.size(), 3U * before.height * before.width);
  const auto painted = [](const Image& image) {
    return std::ranges::count_if(image.rgb, [](auto byte) { return byte != 255; });
  };
  EXPECT_GT(painted(before), 1000);
  EXPECT_LT(painted(before), std::ssize(before.rgb) / 10);
  EXPECT_NE(before.rgb, after.rgb);
}

TEST(PendulumTest, StandsUprightInThePicture) {
  EnvPlayer player(make_pendulum());
  player.reset(1);
  dynamic_cast<ClassicControl<Pendulum>&>(*player.env).set_state({0, 0});
  Image image;
  ASSERT_TRUE(player.env->render(image));
  const auto red = [&](int y, int x) { return static_cast<int>(image.rgb[3 * (y * 500 + x)]); };
  EXPECT_EQ(red(180, 250), 204) << "above the middle";
  EXPECT_EQ(red(320, 250), 255) << "and not below";
  dynamic_cast<ClassicControl<Pendulum>&>(*player.env).set_state({std::numbers::pi / 2, 0});
  ASSERT_TRUE(player.env->render(image));
  EXPECT_EQ(red(250, 180), 204) << "an angle grows counterclockwise";
}

TEST(AcrobotTest, ItsHandIsWhereTheAnglesSay) {
  EnvPlayer player(make_acrobot());
  player.reset(1);
  dynamic_cast<ClassicControl<Acrobot>&>(*player.env).set_state({0, std::numbers::pi / 2, 0, 0});
  Image image;
  ASSERT_TRUE(player.env->render(image));
  const auto red = [&](int y, int x) { return static_cast<int>(image.rgb[3 * (y * 500 + x)]); };
  EXPECT_EQ(red(310, 250), 0) << "the first link hangs";
  EXPECT_EQ(red(364, 320), 0) << "the second one points to the right";
  EXPECT_EQ(red(364, 180), 255);
  EXPECT_EQ(red(420, 250), 255);
}

// A force out of bounds is clipped; the mountain car's cost uses the unclipped action.
TEST(ForceTest, IsCutToItsBounds) {
  for (const auto& make : {make_pendulum(), make_mountain_car_continuous()}) {
    EnvPlayer cut(make), bound(make);
    const auto limit = static_cast<float>(bound.env->spec().action[0].high);
    cut.reset(1);
    bound.reset(1);
    cut.push(100);
    bound.push(limit);
    EXPECT_EQ(cut.observation, bound.observation);
  }
  EnvPlayer car(make_mountain_car_continuous());
  car.reset(1);
  EXPECT_FLOAT_EQ(car.push(2).reward, -0.4F);
}

}  // namespace
}  // namespace shoal
