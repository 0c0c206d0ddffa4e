#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "cli/frame_sink.h"

namespace shoal::cli {
namespace {

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t n = 0;
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++n;
  return n;
}

TEST(TerminalViewTest, ACharacterIsTwoPixels) {
  const Image image{.height = 2, .width = 1, .rgb = {1, 2, 3, 4, 5, 6}};
  EXPECT_EQ(terminal_text(image, 80, 24), "\x1b[38;2;1;2;3;48;2;4;5;6m▀\x1b[0m\n");
}

TEST(TerminalViewTest, ALargePictureIsShrunkToWhatThereIsRoomFor) {
  Image image{.height = 400, .width = 600, .rgb = {}};
  image.rgb.assign(std::size_t{3} * 400 * 600, 100);
  std::fill_n(image.rgb.begin(), image.rgb.size() / 2, 200);  // the upper half
  const auto text = terminal_text(image, 80, 24);
  EXPECT_EQ(count(text, "\n"), 24U) << "as high as the terminal";
  EXPECT_EQ(count(text, "▀"), 24U * 72) << "as wide as that makes it";
  EXPECT_EQ(count(text, "38;2;200;200;200;48;2;200;200;200"), 12U) << "once a line";
  EXPECT_EQ(count(text, "38;2;100;100;100;48;2;100;100;100"), 12U);
  EXPECT_EQ(count(terminal_text(image, 10, 24), "▀") / count(terminal_text(image, 10, 24), "\n"),
            10U)
      << "or as wide as the terminal";
}

}  // namespace
}  // namespace shoal::cli
