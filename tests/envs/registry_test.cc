#include "shoal/envs/registry.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "shoal/core/error.h"
#include "shoal/envs/atari.h"
#include "shoal/envs/classic_control.h"
#include "tests/support/message_of.h"

namespace shoal {
namespace {

TEST(RegistryTest, MakesCartPole) {
  const auto env = make_env_factory("CartPole-v1")({.seed = 1});
  EXPECT_EQ(env->spec().id, "CartPole-v1");
  const auto ids = env_ids();
  EXPECT_NE(std::ranges::find(ids, "CartPole-v1"), ids.end());
}

TEST(RegistryTest, MakesWhatWasRegistered) {
  register_env("Short-v0", make_cart_pole(5));
  const auto ids = env_ids();
  EXPECT_NE(std::ranges::find(ids, "Short-v0"), ids.end());
  EXPECT_EQ(make_env_factory("Short-v0")({})->spec().id, "CartPole-v1");
  EXPECT_EQ(make_env_factory("Short-v0", {.atari = {}, .reward_clip = 1})({})->spec().info.size(),
            1U)
      << "with the same wrappers";
  EXPECT_THROW(register_env("Short-v0", make_cart_pole()), Error);
  EXPECT_THROW(register_env("CartPole-v1", make_cart_pole()), Error);
}

TEST(RegistryTest, WhatWouldChangeNothingIsRefused) {
  EXPECT_NE(message_of([] {
              make_env_factory("CartPole-v1", {.gymnasium = {.kwargs = R"({"a": 1})"}});
            }).find("expected an env.id such as gymnasium:CartPole-v1"),
            std::string::npos);
  EXPECT_NE(message_of([] {
              make_env_factory("Swimmer-v5", {.info = {"x_position:max", "x_position:sum"}});
            }).find("found 'x_position:sum' after another entry"),
            std::string::npos);
}

TEST(RegistryTest, NamesTheNearestIdForAnUnknownOne) {
  EXPECT_EQ(message_of([] { make_env_factory("Cartpole-v0"); }),
            "unknown environment 'Cartpole-v0'; did you mean 'CartPole-v1'?");
  EXPECT_EQ(message_of([] { make_env_factory("my_tasks:Walk-v0"); }),
            "unknown environment 'my_tasks:Walk-v0'; did you mean 'gymnasium:my_tasks:Walk-v0'?");
  EXPECT_EQ(message_of([] { make_env_factory("gym:CartPole-v1"); }),
            "unknown environment 'gym:CartPole-v1'; did you mean 'gymnasium:CartPole-v1'?");
  if (!atari_ids().empty()) {
    EXPECT_EQ(message_of([] { make_env_factory("pong-v5"); }),
              "unknown environment 'pong-v5'; did you mean 'ALE/Pong-v5'?");
    EXPECT_EQ(message_of([] { make_env_factory("BreakoutNoFrameskip-v4"); }),
              "unknown environment 'BreakoutNoFrameskip-v4'; did you mean 'ALE/Breakout-v5'?");
  }
  EXPECT_NE(message_of([] { make_env_factory("my-highway-v0"); }).find("gymnasium:PACKAGE:ID"),
            std::string::npos);
}

}  // namespace
}  // namespace shoal
