#include "shoal/core/text.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

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

}  // namespace
}  // namespace shoal
