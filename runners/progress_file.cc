#include "shoal/runners/progress_file.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>
#include <span>
#include <sstream>
#include <utility>

#include "shoal/core/error.h"
#include "shoal/core/text.h"
#include "shoal/runners/files.h"

namespace shoal {
namespace {

constexpr const char* kSeconds = "seconds";

std::vector<std::string> split(const std::string& line) {
  std::vector<std::string> parts;
  std::istringstream in(line);
  for (std::string part; std::getline(in, part, ',');) parts.push_back(part);
  return parts;
}

// The complete lines of a text; text after the last line break is dropped.
std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  for (std::size_t from = 0, end; (end = text.find('\n', from)) != std::string::npos;
       from = end + 1)
    lines.push_back(text.substr(from, end - from));
  return lines;
}

// The cell as a number; empty unless all of it is one.
template <class Number>
std::optional<Number> number_in(const std::string& cell) {
  Number number{};
  const auto* end = cell.data() + cell.size();
  const auto [rest, error] = std::from_chars(cell.data(), end, number);
  return error == std::errc() && rest == end ? std::optional(number) : std::nullopt;
}

// `line` counts from 0, the message from 1.
[[noreturn]] void refuse_cell(const std::string& file, std::size_t line, const std::string& column,
                              const std::string& cell, const char* expected) {
  throw Error("{}, line {}: {} is '{}', expected {}; correct it, or remove the line", file,
              line + 1, one_line(column), one_line(cell), expected);
}

std::int64_t steps_of(const std::string& file, std::size_t line, const std::string& text) {
  const auto cell = text.substr(0, text.find(','));
  const auto steps = number_in<std::int64_t>(cell);
  if (!steps || *steps < 0) refuse_cell(file, line, "steps", cell, "a whole number, 0 or more");
  return *steps;
}

// The "seconds" of a row; 0 if there is no such column.
double seconds_of(const std::string& file, std::size_t line, const std::string& text,
                  const std::vector<std::string>& columns) {
  const auto cells = split(text);
  const auto column = std::ranges::find(columns, kSeconds) - columns.begin();
  if (column == std::ssize(columns)) return 0;
  const auto cell =
      column < std::ssize(cells) ? cells[static_cast<std::size_t>(column)] : std::string();
  const auto seconds = number_in<double>(cell);
  if (!seconds || !std::isfinite(*seconds) || *seconds < 0)
    refuse_cell(file, line, kSeconds, cell, "a number, 0 or more");
  return *seconds;
}

}  // namespace

KeptRows keep_rows(const std::string& text, const std::string& file, std::int64_t steps) {
  const auto lines = lines_of(text);
  KeptRows kept;
  std::size_t last = 0;  // 0: the header
  for (std::size_t i = 0; i < lines.size(); ++i) {
    if (i > 0 && steps_of(file, i, lines[i]) > steps) break;
    kept.text += lines[last = i] + '\n';
  }
  if (!lines.empty()) kept.columns = split(lines[0]);
  if (last > 0) kept.seconds = seconds_of(file, last, lines[last], kept.columns);
  return kept;
}

void ProgressFile::open(const std::filesystem::path& file) {
  file_ = file;
  columns_.clear();
  waiting_.clear();
  out_.open(file);
  require(out_.good(), "cannot write {}: {}", file.string(), std::strerror(errno));
}

double ProgressFile::resume(const std::filesystem::path& file, std::int64_t steps) {
  file_ = file;
  auto kept = keep_rows(read_file(file), file.string(), steps);
  columns_ = std::move(kept.columns);
  write_file(file, kept.text);
  out_.open(file, std::ios::app);
  require(out_.good(), "cannot write {}: {}", file.string(), std::strerror(errno));
  return kept.seconds;
}

void ProgressFile::write(const LogRow& row) {
  add_columns(row.numbers);
  std::string line = std::to_string(row.steps);
  auto next = row.numbers.begin();
  for (auto column = columns_.begin() + 1; column != columns_.end(); ++column) {
    // The order is nearly always the same.
    if (next == row.numbers.end() || next->first != *column)
      next = std::ranges::find(row.numbers, *column, &Metrics::value_type::first);
    line += ',';
    if (next != row.numbers.end()) line += number_text(next++->second);
  }
  waiting_ += line + '\n';
  constexpr std::chrono::milliseconds kPause{100};
  if (Clock::now() - flushed_ >= kPause) flush();
}

void ProgressFile::sync() {
  flush();
  sync_file(file_);
}

ProgressFile::~ProgressFile() {
  out_ << waiting_;  // errors can no longer be reported
}

Named<std::vector<double>> read_progress(const std::filesystem::path& file) {
  return parse_progress(read_file(file), file.string());
}

Named<std::vector<double>> parse_progress(const std::string& text, const std::string& file) {
  constexpr std::optional kEmpty = std::numeric_limits<double>::quiet_NaN();
  const auto lines = lines_of(text);
  Named<std::vector<double>> table;
  if (lines.empty()) return table;
  for (const auto& name : split(lines[0])) table.add(name, {});
  // Each cell of a complete row takes at least one byte.
  constexpr std::size_t kMissing = 1'000'000;
  require(table.size() <= (text.size() + kMissing) / lines.size(),
          "{} is damaged: its rows have fewer cells than its header has columns", file);
  for (std::size_t i = 1; i < lines.size(); ++i) {
    const auto cells = split(lines[i]);
    for (std::size_t column = 0; column < table.size(); ++column) {
      const auto& cell = column < cells.size() ? cells[column] : "";
      const auto number = cell.empty() ? kEmpty : number_in<double>(cell);
      if (!number) refuse_cell(file, i, table.name(column), cell, "a number");
      table[column].push_back(*number);
    }
  }
  return table;
}

void ProgressFile::add_columns(const Metrics& numbers) {
  const auto before = columns_.size();
  if (columns_.empty()) columns_.emplace_back("steps");
  const auto known = std::span(columns_).subspan(1);
  if (before > 0 && std::ranges::equal(numbers, known, {}, &Metrics::value_type::first)) return;
  for (const auto& [name, number] : numbers)
    if (std::ranges::count(columns_, name) == 0) columns_.push_back(name);
  if (columns_.size() == before) return;
  const std::string header = fmt::format("{}", fmt::join(columns_, ","));
  if (before == 0) {
    waiting_ = header + '\n';
    return;
  }
  flush();
  std::string all = header + '\n';
  const auto lines = lines_of(read_file(file_));
  for (std::size_t i = 1; i < lines.size(); ++i)
    all += lines[i] + std::string(columns_.size() - before, ',') + '\n';
  out_.close();
  write_file(file_, all);
  out_.open(file_, std::ios::app);
}

void ProgressFile::flush() {
  out_ << waiting_ << std::flush;
  require(out_.good(), "cannot write {}: {}", file_.string(), std::strerror(errno));
  waiting_.clear();
  flushed_ = Clock::now();
}

}  // namespace shoal
