#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

namespace shoal {

// The state of a run, for display.
struct Status {
  std::int64_t steps = 0, total = 0, episodes = 0;
  double seconds = 0;
  double sps = 0;          // agent steps per second, of the last rollout
  double mean_return = 0;  // NaN: no episode has ended yet
};

// One line of at most `width` columns: bar, steps, speed, return, time left.
std::string live_line(const Status& status, int width);
// The same line for a log: without the bar, of any width.
std::string plain_line(const Status& status);
// 95 -> "1m35s".
std::string duration(double seconds);

// Writes to standard output and flushes it. A closed reader (EPIPE; SIGPIPE is ignored) is a
// request to stop (shoal/core/stop.h): `shoal train | head -1` ends with a checkpoint. Other
// failures are reported by the check of standard output at program exit.
void print_to_console(std::string_view text);

// Shows progress on standard output: on a terminal, one line that is rewritten in place; elsewhere,
// plain lines (one per second at first, fewer as the run gets longer).
class Console {
 public:
  explicit Console(bool quiet);
  ~Console() { finish_line(); }
  Console(const Console&) = delete;
  Console& operator=(const Console&) = delete;

  // last: it is shown however short the time since the last one.
  void show(const Status& status, bool last = false);
  // Keeps the live line on screen and moves to the next line.
  void finish_line();

 private:
  bool due(double seconds, bool last);
  bool quiet_, terminal_, open_ = false;
  double next_ = 0;
};

}  // namespace shoal
