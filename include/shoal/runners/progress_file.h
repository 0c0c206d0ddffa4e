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

// A CSV table that grows row by row. Its first column is "steps". A new column is appended after
// the others and is empty in earlier rows; a column that a row lacks is empty there. Integers are
// written in full, other numbers with six digits.
class ProgressFile : public LogSink {
 public:
  // Starts a new table.
  void open(const std::filesystem::path& file);
  // Continues the table in `file` after the rows with at most `steps` steps, and drops everything
  // after them, including an incomplete row. Returns "seconds" of the last row, 0 if there is none.
  // Throws Error if the file cannot be read or written, or if these numbers are damaged.
  double resume(const std::filesystem::path& file, std::int64_t steps);
  // A reader of the file sees complete rows. Rows are flushed at most ten times a second, because a
  // system call takes longer than making a row.
  void write(const LogRow& row) override;
  // Waits until all rows are on disk: a checkpoint must not be ahead of them.
  void sync() override;
  ~ProgressFile() override;

 private:
  using Clock = std::chrono::steady_clock;
  void add_columns(const Metrics& numbers);
  void flush();

  std::filesystem::path file_;
  std::ofstream out_;
  std::vector<std::string> columns_;
  std::string waiting_;  // complete rows
  Clock::time_point flushed_;
};

// The header of such a text and its rows with at most `steps` steps; the rest is dropped. `file`
// appears in messages. Throws Error as ProgressFile::resume() does.
struct KeptRows {
  std::string text;
  std::vector<std::string> columns;
  double seconds = 0;  // of the last row
};
KeptRows keep_rows(const std::string& text, const std::string& file, std::int64_t steps);

// The columns of such a file, NaN where a cell is empty. An incomplete last line is ignored. Throws
// Error if the file cannot be read, or if a cell is not a number.
Named<std::vector<double>> read_progress(const std::filesystem::path& file);
// Parses the text of such a file; `file` appears in messages.
Named<std::vector<double>> parse_progress(const std::string& text, const std::string& file);

}  // namespace shoal
