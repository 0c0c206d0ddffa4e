#include "shoal/runners/progress_file.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <limits>
#include <span>
#include <sstream>

#include "shoal/core/error.h"
#include "shoal/core/text.h"
#include "shoal/runners/checkpoint.h"

namespace shoal {
namespace {

std::vector<std::string> split(const std::string& line) {
  std::vector<std::string> parts;
  std::istringstream in(line);
  for (std::string part; std::getline(in, part, ',');) parts.push_back(part);
  return parts;
}

// The whole lines of a text; what follows the last line break is none.
std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  for (std::size_t from = 0, end; (end = text.find('\n', from)) != std::string::npos;
       from = end + 1)
    lines.push_back(text.substr(from, end - from));
  return lines;
}

std::int64_t steps_of(const std::string& line) {
  std::int64_t steps = 0;
  std::from_chars(line.data(), line.data() + line.size(), steps);
  return steps;
}

}  // namespace

void ProgressFile::open(const std::filesystem::path& file) {
  file_ = file;
  columns_.clear();
  waiting_.clear();
  out_.open(file);
  require(out_.good(), "cannot write {}: {}", file.string(), std::strerror(errno));
}

std::vector<std::pair<std::string, std::string>> ProgressFile::resume(
    const std::filesystem::path& file, std::int64_t steps) {
  file_ = file;
  const auto lines = lines_of(read_file(file));
  std::string kept, last;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    if (i > 0 && steps_of(lines[i]) > steps) break;
    kept += lines[i] + '\n';
    if (i > 0) last = lines[i];
  }
  write_file(file, kept);
  columns_ = lines.empty() ? std::vector<std::string>{} : split(lines[0]);
  out_.open(file, std::ios::app);
  require(out_.good(), "cannot write {}: {}", file.string(), std::strerror(errno));
  std::vector<std::pair<std::string, std::string>> row;
  const auto cells = split(last);
  for (std::size_t i = 0; i < std::min(cells.size(), columns_.size()); ++i)
    row.emplace_back(columns_[i], cells[i]);
  return row;
}

void ProgressFile::write(const LogRow& row) {
  add_columns(row.numbers);
  std::string line = std::to_string(row.steps);
  auto next = row.numbers.begin();
  for (auto column = columns_.begin() + 1; column != columns_.end(); ++column) {
    // Nearly always they come in the same order.
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
  out_ << waiting_;  // too late to complain
}

Named<std::vector<double>> read_progress(const std::filesystem::path& file) {
  constexpr double kEmpty = std::numeric_limits<double>::quiet_NaN();
  const auto lines = lines_of(read_file(file));
  Named<std::vector<double>> table;
  if (lines.empty()) return table;
  for (const auto& name : split(lines[0])) table.add(name, {});
  for (std::size_t i = 1; i < lines.size(); ++i) {
    const auto cells = split(lines[i]);
    for (std::size_t column = 0; column < table.size(); ++column) {
      const auto& cell = column < cells.size() ? cells[column] : "";
      double number = kEmpty;
      std::from_chars(cell.data(), cell.data() + cell.size(), number);
      table[column].push_back(number);
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
