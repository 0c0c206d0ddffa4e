#include "shoal/runners/progress_file.h"

#include <fcntl.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cmath>
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

std::string text_of(double number) {
  const bool whole = std::floor(number) == number && std::abs(number) < 1e15;
  return whole ? fmt::format("{:.0f}", number) : fmt::format("{:.6g}", number);
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
  for (auto column = columns_.begin() + 1; column != columns_.end(); ++column) {
    const auto number = std::ranges::find(row.numbers, *column, &Metrics::value_type::first);
    line += ',';
    if (number != row.numbers.end()) line += text_of(number->second);
  }
  append(line);
}

void ProgressFile::sync() const {
  const int fd = ::open(file_.c_str(), O_RDONLY | O_CLOEXEC);
  const bool done = fd >= 0 && (::fsync(fd) == 0 || errno == EINVAL);  // a pipe cannot
  const int error = errno;
  if (fd >= 0) ::close(fd);
  require(done, "cannot write {}: {}", file_.string(), std::strerror(error));
}

void ProgressFile::add_columns(const Metrics& numbers) {
  const auto before = columns_.size();
  if (columns_.empty()) columns_.emplace_back("steps");
  for (const auto& [name, number] : numbers)
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
