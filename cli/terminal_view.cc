#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <optional>
#include <string>

#include "cli/frame_sink.h"
#include "src/core/print.h"

namespace shoal::cli {
namespace {

using Colour = std::array<int, 3>;

// The mean colour of the area of `image` that pixel (x, y) of a width * height image covers.
Colour shrunk(const Image& image, int x, int y, int width, int height) {
  const int left = x * image.width / width, top = y * image.height / height;
  const int right = std::max(left + 1, (x + 1) * image.width / width),
            bottom = std::max(top + 1, (y + 1) * image.height / height);
  Colour sum{};
  for (int row = top; row < bottom; ++row)
    for (int column = left; column < right; ++column)
      for (std::size_t c = 0; c < 3; ++c)
        sum[c] += image.rgb[3 * (static_cast<std::size_t>(row) * image.width + column) + c];
  for (int& c : sum) c /= (right - left) * (bottom - top);
  return sum;
}

class TerminalView : public FrameSink {
 public:
  ~TerminalView() override {
    if (begun_) print_output("\x1b[?25h\n");  // show the cursor
  }
  void show(const Image& image) override {
    winsize size{};
    if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) size = {24, 80, 0, 0};
    if (!begun_) print_output("\x1b[?25l\x1b[2J");  // hide the cursor, clear the screen
    begun_ = true;
    print_output("\x1b[H{}", terminal_text(image, size.ws_col, size.ws_row - 1));
    std::fflush(stdout);
  }

 private:
  bool begun_ = false;
};

}  // namespace

std::string terminal_text(const Image& image, int columns, int rows) {
  const double scale =
      std::min({1.0, static_cast<double>(columns) / image.width, 2.0 * rows / image.height});
  const int width = std::max(1, static_cast<int>(image.width * scale)),
            height = std::max(2, static_cast<int>(image.height * scale) / 2 * 2);
  std::string text;
  for (int y = 0; y < height; y += 2) {
    std::optional<std::array<Colour, 2>> last;  // of this line; only changes are written
    for (int x = 0; x < width; ++x) {
      const std::array<Colour, 2> pair{shrunk(image, x, y, width, height),
                                       shrunk(image, x, y + 1, width, height)};
      const auto& [upper, lower] = pair;
      if (pair != last)
        text += fmt::format("\x1b[38;2;{};{};{};48;2;{};{};{}m", upper[0], upper[1], upper[2],
                            lower[0], lower[1], lower[2]);
      text += "▀";
      last = pair;
    }
    text += "\x1b[0m\n";
  }
  return text;
}

std::unique_ptr<FrameSink> make_terminal_view() { return std::make_unique<TerminalView>(); }

}  // namespace shoal::cli
