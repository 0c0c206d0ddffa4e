#include "shoal/envs/registry.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "shoal/core/error.h"
#include "shoal/core/text.h"
#include "shoal/envs/atari.h"
#include "shoal/envs/classic_control.h"
#include "tests/support/message_of.h"

namespace shoal {
namespace {

TEST(NearestTest, CountsEdits) {
  const std::vector<std::string> known{"learning_rate", "gamma", "gae_lambda"};
  EXPECT_EQ(nearest("learning-rate", known), "learning_rate");
  EXPECT_EQ(nearest("gae_lamda", known), "gae_lambda");
  EXPECT_EQ(nearest("GAMMA", known), "gamma");
  EXPECT_EQ(nearest("", known), "gamma");
  EXPECT_EQ(nearest("anything", {}), "");
}

TEST(OneLineTest, ReplacesWhatATerminalCannotShow) {
  EXPECT_EQ(one_line("two\nlines\x1b[0m"), "two lines?[0m");
  EXPECT_EQ(one_line("caf\xc3\xa9"), "caf\xc3\xa9");
  EXPECT_EQ(one_line("a\xff\xfe\xc3"), "a???");
  EXPECT_EQ(one_line("\xc3\xa9\xc3\xa9", 3), "\xc3\xa9...");
}

TEST(ShellWordTest, QuotesWhatAShellWouldReadOtherwise) {
  EXPECT_EQ(shell_word("runs/clip=0.1,a-1_2"), "runs/clip=0.1,a-1_2");
  EXPECT_EQ(shell_word("two words"), "'two words'");
  EXPECT_EQ(shell_word("it's $x"), R"('it'\''s $x')");
  EXPECT_EQ(shell_word(""), "''");
}

TEST(BytesTextTest, HasTheUnitThatShowsSomething) {
  EXPECT_EQ(bytes_text(0), "0 B");
  EXPECT_EQ(bytes_text(48'700'000), "48.7 MB");
  EXPECT_EQ(bytes_text(999'700), "1 MB");
}

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
  if (!atari_ids().empty()) {
    EXPECT_EQ(message_of([] { make_env_factory("pong-v5"); }),
              "unknown environment 'pong-v5'; did you mean 'ALE/Pong-v5'?");
  }
  EXPECT_NE(message_of([] { make_env_factory("my-highway-v0"); }).find("gymnasium:PACKAGE/ID"),
            std::string::npos);
}

}  // namespace
}  // namespace shoal
