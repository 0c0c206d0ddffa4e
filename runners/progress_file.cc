#include "shoal/runners/progress_file.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <sstream>

#include "shoal/core/error.h"
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
  out_.open(file);
  require(out_.good(), "cannot write {}: {}", file.string(), std::strerror(errno));
}

ProgressFile::Row ProgressFile::resume(const std::filesystem::path& file, std::int64_t steps) {
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
  Row row;
  const auto cells = split(last);
  for (std::size_t i = 0; i < std::min(cells.size(), columns_.size()); ++i)
    row.emplace_back(columns_[i], cells[i]);
  return row;
}

void ProgressFile::write(const Row& row) {
  add_columns(row);
  std::vector<std::string> cells;
  for (const auto& column : columns_) {
    const auto cell = std::ranges::find(row, column, &Row::value_type::first);
    cells.push_back(cell == row.end() ? "" : cell->second);
  }
  append(fmt::format("{}", fmt::join(cells, ",")));
}

void ProgressFile::add_columns(const Row& row) {
  const auto before = columns_.size();
  for (const auto& [name, text] : row)
    if (std::ranges::count(columns_, name) == 0) columns_.push_back(name);
  if (columns_.size() == before) return;
  const std::string header = fmt::format("{}", fmt::join(columns_, ","));
  if (before == 0) return append(header);
  std::string all = header + '\n';
  const auto lines = lines_of(read_file(file_));
  for (std::size_t i = 1; i < lines.size(); ++i)
    all += lines[i] + std::string(columns_.size() - before, ',') + '\n';
  out_.close();
  write_file(file_, all);
  out_.open(file_, std::ios::app);
}

void ProgressFile::append(const std::string& line) {
  out_ << line << std::endl;
  require(out_.good(), "cannot write {}: {}", file_.string(), std::strerror(errno));
}

}  // namespace shoal
