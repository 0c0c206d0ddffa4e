#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

namespace shoal {

// What there is to tell about a run at one moment.
struct Status {
  std::int64_t steps = 0, total = 0, episodes = 0;
  double seconds = 0;
  double sps = 0;          // agent steps a second, of the last rollout
  double mean_return = 0;  // NaN: no episode has ended yet
};

// One line of `width` columns at most: bar, steps, speed, return, time left.
std::string live_line(const Status& status, int width);
// The same for a log: no bar, no width.
std::string plain_line(const Status& status);
// 95 -> "1m35s".
std::string duration(double seconds);

// Writes to standard output, at once. If nobody reads it any more (EPIPE; SIGPIPE is ignored), that
// is a request to stop (shoal/core/stop.h): `shoal train | head -1` ends with a checkpoint.
// Other failures are reported by the check of standard output at the program's end.
void print_to_console(std::string_view text);
// Text that cannot be written is lost.
void print_to_stderr(std::string_view text);

// Shows progress on standard output: on a terminal one line that is rewritten in place, elsewhere a
// plain line now and then (every second at first, less often as the run gets long).
class Console {
 public:
  explicit Console(bool quiet);
  ~Console() { finish_line(); }
  Console(const Console&) = delete;
  Console& operator=(const Console&) = delete;

  void show(const Status& status, bool last = false);
  // Leaves the live line as it stands and goes to the next.
  void finish_line();

 private:
  bool due(double seconds, bool last);
  bool quiet_, terminal_, open_ = false;
  double next_ = 0;
};

}  // namespace shoal
