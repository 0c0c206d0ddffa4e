#include "shoal/runners/console.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <utility>

#include "shoal/core/stop.h"

namespace shoal {
namespace {

constexpr double kLiveInterval = 0.1;  // seconds between two updates of the live line
constexpr int kShortestBar = 8, kLongestBar = 24;

int terminal_width() {
  winsize size{};
  return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

double done_share(const Status& status) {
  return std::clamp(static_cast<double>(status.steps) / static_cast<double>(status.total), 0.0,
                    1.0);
}

// 1234567 -> "1.23M".
std::string count(double n) {
  if (n >= 1e6) return fmt::format("{:.2f}M", n / 1e6);
  if (n >= 1e4) return fmt::format("{:.1f}k", n / 1e3);
  return fmt::format("{:.0f}", n);
}

std::string numbers(const Status& s) {
  std::string text = fmt::format("{}/{} steps  {}/s", count(static_cast<double>(s.steps)),
                                 count(static_cast<double>(s.total)), count(s.sps));
  text += std::isnan(s.mean_return) ? std::string("  return -")
                                    : fmt::format("  return {:.1f}", s.mean_return);
  if (s.sps > 0 && s.steps < s.total)
    text += "  " + duration(static_cast<double>(s.total - s.steps) / s.sps) + " left";
  return text;
}

}  // namespace

void print_to_console(std::string_view text) {
  errno = 0;
  std::fwrite(text.data(), 1, text.size(), stdout);
  if (std::fflush(stdout) != 0 && errno == EPIPE) request_stop(SIGPIPE);
}

std::string duration(double seconds) {
  const auto s = std::llround(std::max(seconds, 0.0));
  if (s < 60) return fmt::format("{}s", s);
  if (s < 3600) return fmt::format("{}m{:02}s", s / 60, s % 60);
  return fmt::format("{}h{:02}m", s / 3600, s / 60 % 60);
}

std::string live_line(const Status& status, int width) {
  const double done = done_share(status);
  const std::string text = fmt::format("] {:3.0f}%  {}", std::floor(done * 100), numbers(status));
  // The bar gets the columns that the numbers leave.
  const int bar = std::clamp(width - 1 - static_cast<int>(text.size()), kShortestBar, kLongestBar);
  const auto filled = static_cast<std::size_t>(std::lround(done * bar));
  std::string line = fmt::format("[{:<{}}{}", std::string(filled, '='), bar, text);
  if (line.size() > static_cast<std::size_t>(width)) line.resize(static_cast<std::size_t>(width));
  return line;
}

std::string plain_line(const Status& status) {
  return fmt::format("{:3.0f}%  {}  {} episodes  {} elapsed", std::floor(done_share(status) * 100),
                     numbers(status), status.episodes, duration(status.seconds));
}

Console::Console(bool quiet) : quiet_(quiet), terminal_(isatty(STDOUT_FILENO) != 0) {}

bool Console::due(double seconds, bool last) {
  if (quiet_ || (seconds < next_ && !last)) return false;
  next_ = seconds + (terminal_ ? kLiveInterval : std::clamp(seconds / 10, 1.0, 30.0));
  return true;
}

void Console::show(const Status& status, bool last) {
  if (!due(status.seconds, last)) return;
  if (terminal_) {
    // The whole line and "erase to the end" in one write, so that it does not flicker.
    print_to_console(fmt::format("\r{}\x1b[K", live_line(status, terminal_width() - 1)));
    open_ = true;
  } else {
    print_to_console(plain_line(status) + "\n");
  }
}

void Console::finish_line() {
  if (std::exchange(open_, false)) print_to_console("\n");
}

}  // namespace shoal
