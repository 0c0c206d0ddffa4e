#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "shoal/core/spec.h"
#include "shoal/runners/log.h"

namespace shoal {

// A table in CSV that grows by a row at a time, its first column "steps". Columns may come and go:
// one that was not there before is added behind the others and is empty in the rows before it; one
// that is missing is empty. Whole numbers are written as such, others with six digits.
class ProgressFile : public LogSink {
 public:
  // Begins a new table.
  void open(const std::filesystem::path& file);
  // Goes on with the one in `file` after the rows with at most so many steps; whatever follows
  // them, half a row perhaps, is dropped. Returns the last one's "seconds", 0 if there are none.
  // Throws Error if the file cannot be read or written, or if these numbers are damaged.
  double resume(const std::filesystem::path& file, std::int64_t steps);
  // Whoever watches the file sees whole rows. Those that come faster than ten a second wait for
  // each other: telling the system of one takes longer than making it.
  void write(const LogRow& row) override;
  // Waits until all rows are on the disk: a checkpoint must not be ahead of them.
  void sync() override;
  ~ProgressFile() override;

 private:
  using Clock = std::chrono::steady_clock;
  void add_columns(const Metrics& numbers);
  void flush();

  std::filesystem::path file_;
  std::ofstream out_;
  std::vector<std::string> columns_;
  std::string waiting_;  // whole rows
  Clock::time_point flushed_;
};

// The rows of such a text with at most so many steps, and its header; whatever follows them is left
// out. `file` is for messages. Throws Error as ProgressFile::resume() does.
struct KeptRows {
  std::string text;
  std::vector<std::string> columns;
  double seconds = 0;  // of the last row
};
KeptRows keep_rows(const std::string& text, const std::string& file, std::int64_t steps);

// The columns of such a file, NaN where a cell is empty; a last line that is none yet is left out.
// Throws Error if the file cannot be read, or if a cell is no number.
Named<std::vector<double>> read_progress(const std::filesystem::path& file);
// Those of its text; `file` is for messages.
Named<std::vector<double>> parse_progress(const std::string& text, const std::string& file);

}  // namespace shoal
