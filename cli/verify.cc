#include <ATen/core/Tensor.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "cli/commands.h"
#include "shoal/core/error.h"
#include "shoal/runners/checkpoint_files.h"
#include "shoal/runners/config.h"
#include "shoal/runners/progress_file.h"
#include "shoal/runners/session.h"
#include "src/core/print.h"

namespace fs = std::filesystem;

namespace shoal::cli {
namespace {

// Exit status if two runs are the same as far as both have come.
constexpr int kSameSoFar = 3;

struct Runs {
  fs::path a, b;
  Config config_a, config_b;
};

struct Comparison {
  bool same = true;
  bool whole = true;  // both runs have the same length
  std::vector<std::string> compared = {};

  void add(bool is_same, std::string what) {
    compared.push_back(std::move(what));
    same = same && is_same;
  }
};

// Settings that may_change() allows may differ.
void compare_settings(const Runs& runs, Comparison& result) {
  const auto changes = changed_settings(runs.config_a, runs.config_b);
  for (const auto& [key, a, b] : changes) {
    const bool counts = !may_change(key) && key != "base";
    if (counts) result.same = false;
    print_output("settings: {} is {} in A and {} in B{}\n", key, a, b,
                 counts ? "" : " (not counted)");
  }
  if (changes.empty()) print_output("settings: the same\n");
}

// Names of A in its order, then names that only B has.
template <class T>
std::vector<std::string> names_of_both(const Named<T>& a, const Named<T>& b) {
  std::vector<std::string> names;
  for (const auto& [name, value] : a) names.push_back(name);
  for (const auto& [name, value] : b)
    if (!a.contains(name)) names.push_back(name);
  return names;
}

using Table = Named<std::vector<double>>;

bool of_time(const std::string& column) {
  return column == "seconds" || column == "sps" || column.starts_with("share_");
}

// Empty cells are NaN in both tables.
bool same_number(double a, double b) { return a == b || (std::isnan(a) && std::isnan(b)); }

std::string cell_text(double x) { return std::isnan(x) ? "empty" : fmt::format("{}", x); }

std::size_t rows_of(const Table& table) { return table.empty() ? 0 : table[0].size(); }

// A column that does not exist yet is empty.
double cell(const Table& table, const std::string& column, std::size_t row) {
  return table.contains(column) ? table.at(column)[row] : std::numeric_limits<double>::quiet_NaN();
}

// A row of A and the one of B at the same steps.
struct RowPair {
  std::size_t a, b;
};

// With log_steps, a run that ends between two rows has an additional one there.
std::vector<RowPair> common_rows(const Table& a, const Table& b) {
  std::vector<RowPair> common;
  for (RowPair row{0, 0}; row.a < rows_of(a) && row.b < rows_of(b);) {
    const double in_a = cell(a, "steps", row.a), in_b = cell(b, "steps", row.b);
    if (in_a < in_b) {
      ++row.a;
    } else if (in_b < in_a) {
      ++row.b;
    } else {
      common.push_back(row);
      ++row.a;
      ++row.b;
    }
  }
  return common;
}

std::vector<std::string> differing_columns(const Table& a, const Table& b, const RowPair& row) {
  std::vector<std::string> columns;
  for (const auto& column : names_of_both(a, b))
    if (!of_time(column) && !same_number(cell(a, column, row.a), cell(b, column, row.b)))
      columns.push_back(column);
  return columns;
}

std::int64_t counter_of(const Named<std::int64_t>& counters, const char* name) {
  return counters.contains(name) ? counters.at(name) : -1;
}
std::int64_t steps_of(const Checkpoint& checkpoint) {
  return counter_of(checkpoint.counters, "steps");
}

// The steps that the rows of a run reach at least: a run writes a row before the checkpoint that
// counts it.
std::int64_t steps_of_rows(const fs::path& run, const Config& config) {
  std::error_code error;
  if (!fs::exists(run / kCheckpointFile, error)) return 0;
  const auto counters = read_counters(run / kCheckpointFile);
  const auto steps = counter_of(counters, "steps");
  return steps >= config.steps ? steps : counter_of(counters, "row_steps");
}

void find_lost_rows(const char* name, std::int64_t due, const Table& table, Comparison& result) {
  const double last = rows_of(table) == 0 ? 0 : cell(table, "steps", rows_of(table) - 1);
  if (last >= static_cast<double>(due)) return;
  result.same = false;
  print_output("{}: the rows of {} end at step {:.0f}, expected {}, for its {}: rows are missing\n",
               kProgressFile, name, last, due, kCheckpointFile);
}

void compare_progress(const Runs& runs, Comparison& result) {
  // Before the rows, because the runs may go on meanwhile.
  const auto due_a = steps_of_rows(runs.a, runs.config_a),
             due_b = steps_of_rows(runs.b, runs.config_b);
  const auto a = read_progress(runs.a / kProgressFile), b = read_progress(runs.b / kProgressFile);
  find_lost_rows("A", due_a, a, result);
  find_lost_rows("B", due_b, b, result);
  const auto rows = common_rows(a, b);
  const auto end = rows.empty() ? RowPair{0, 0} : RowPair{rows.back().a + 1, rows.back().b + 1};
  result.whole = result.whole && end.a == rows_of(a) && end.b == rows_of(b);
  if (rows.size() < std::max(rows_of(a), rows_of(b)))
    print_output("{}: {} rows in A and {} in B; {} of the same steps are compared\n", kProgressFile,
                 rows_of(a), rows_of(b), rows.size());
  if (rows.empty()) return;
  const auto missing = std::max(end.a, end.b) - rows.size();
  if (missing > 0 && runs.config_a.log_steps == 0 && runs.config_b.log_steps == 0) {
    result.same = false;
    print_output("{}: {} rows are missing in one of them\n", kProgressFile, missing);
  }
  std::vector<std::string> columns;
  std::size_t i = 0;
  while (i < rows.size() && (columns = differing_columns(a, b, rows[i])).empty()) ++i;
  result.add(i == rows.size(), fmt::format("{} rows of {}, to step {:.0f}", rows.size(),
                                           kProgressFile, cell(a, "steps", rows.back().a)));
  if (i == rows.size()) {
    print_output("{}: {} rows are the same, except for the columns of time\n", kProgressFile, i);
    return;
  }
  const auto [row_a, row_b] = rows[i];
  print_output("{}: row {} ({:.0f} steps) is the first that differs: {} is {} in A and {} in B",
               kProgressFile, row_a + 1, cell(a, "steps", row_a), columns[0],
               cell_text(cell(a, columns[0], row_a)), cell_text(cell(b, columns[0], row_b)));
  if (columns.size() > 1) print_output("; {} more columns differ in it", columns.size() - 1);
  print_output("\n");
}

std::string element_text(const at::Tensor& flat, std::int64_t i) {
  const auto type = flat.scalar_type();
  if (type == at::kDouble) return fmt::format("{}", flat[i].item<double>());
  if (at::isFloatingType(type)) return fmt::format("{}", flat[i].item<float>());
  return fmt::format("{}", flat[i].item<std::int64_t>());
}

std::string place_text(const at::Tensor& tensor, std::int64_t i) {
  std::vector<std::int64_t> place(static_cast<std::size_t>(tensor.dim()));
  for (auto d = tensor.dim(); d-- > 0; i /= tensor.size(d))
    place[static_cast<std::size_t>(d)] = i % tensor.size(d);
  return fmt::format("[{}]", fmt::join(place, ", "));
}

// The difference of two tensors with the same name; "" if they are equal bit for bit.
std::string difference(const at::Tensor& a, const at::Tensor& b) {
  const auto described = [](const at::Tensor& x) {
    return fmt::format("{} [{}]", c10::toString(x.scalar_type()), fmt::join(x.sizes(), ", "));
  };
  if (a.scalar_type() != b.scalar_type() || a.sizes() != b.sizes())
    return fmt::format("is {} in A and {} in B", described(a), described(b));
  if (a.nbytes() == 0 || std::memcmp(a.const_data_ptr(), b.const_data_ptr(), a.nbytes()) == 0)
    return "";
  const auto size = static_cast<std::int64_t>(a.element_size());
  const auto *x = static_cast<const std::byte*>(a.const_data_ptr()),
             *y = static_cast<const std::byte*>(b.const_data_ptr());
  std::int64_t first = -1, count = 0;
  for (std::int64_t i = 0; i < a.numel(); ++i) {
    if (std::memcmp(x + i * size, y + i * size, static_cast<std::size_t>(size)) == 0) continue;
    if (count++ == 0) first = i;
  }
  return fmt::format("differs in {} of {} elements, first in {}: {} in A and {} in B", count,
                     a.numel(), place_text(a, first), element_text(a.flatten(), first),
                     element_text(b.flatten(), first));
}

template <class T, class Compare>
std::vector<std::string> differences(const Named<T>& a, const Named<T>& b, const Compare& compare) {
  std::vector<std::string> all;
  for (const auto& name : names_of_both(a, b)) {
    const auto text = !a.contains(name)   ? std::string("is in B only")
                      : !b.contains(name) ? std::string("is in A only")
                                          : compare(a.at(name), b.at(name));
    if (!text.empty()) all.push_back(fmt::format("{} {}", name, text));
  }
  return all;
}

bool print_differences(const std::string& file, const char* kind, std::size_t count,
                       const std::vector<std::string>& all) {
  if (all.empty()) return true;
  print_output("{}: {} of {} {} differ; the first: {}\n", file, all.size(), count, kind, all[0]);
  return false;
}

// A checkpoint holds no times, so checkpoints of equal runs are equal files.
bool same_bytes(const fs::path& a, const fs::path& b) {
  std::error_code error;
  if (fs::file_size(a, error) != fs::file_size(b, error) || error) return false;
  std::ifstream in_a(a, std::ios::binary), in_b(b, std::ios::binary);
  std::vector<char> x(1 << 20), y(x.size());
  while (in_a.good() && in_b.good()) {
    in_a.read(x.data(), std::ssize(x));
    in_b.read(y.data(), std::ssize(y));
    if (in_a.gcount() != in_b.gcount() ||
        std::memcmp(x.data(), y.data(), static_cast<std::size_t>(in_a.gcount())) != 0)
      return false;
  }
  return in_a.eof() && in_b.eof();
}

// Equal Python objects may pickle to different bytes.
bool is_pickled(const Runs& runs, const std::string& tensor) {
  return tensor.starts_with("sampler/env/") && runs.config_a.env_id.starts_with("gymnasium:");
}

NamedTensors without_pickled(const Runs& runs, const NamedTensors& all) {
  NamedTensors rest;
  for (const auto& [name, tensor] : all)
    if (!is_pickled(runs, name)) rest.add(name, tensor);
  return rest;
}

void compare_checkpoint(const Runs& runs, const std::string& name, Comparison& result) {
  const auto file_a = runs.a / name, file_b = runs.b / name;
  if (same_bytes(file_a, file_b)) {
    print_output("{}: the same\n", name);
    return result.add(true, name);
  }
  auto a = read_checkpoint(file_a), b = read_checkpoint(file_b);
  if (steps_of(a) != steps_of(b)) {
    print_output("{}: at {} steps in A and {} in B, not compared\n", name, steps_of(a),
                 steps_of(b));
    result.whole = false;
    return;
  }
  const auto all = a.tensors.size();
  a.tensors = without_pickled(runs, a.tensors), b.tensors = without_pickled(runs, b.tensors);
  const auto counters = differences(a.counters, b.counters, [](std::int64_t x, std::int64_t y) {
    return x == y ? std::string() : fmt::format("is {} in A and {} in B", x, y);
  });
  const auto tensors = differences(a.tensors, b.tensors, difference);
  bool same = print_differences(name, "counters", a.counters.size(), counters);
  same = print_differences(name, "tensors", a.tensors.size(), tensors) && same;
  if (same)
    print_output("{}: {} counters and {} tensors are the same\n", name, a.counters.size(),
                 a.tensors.size());
  if (a.tensors.size() < all)
    print_output(
        "{}: {} states of Python environments were not compared: equal states may have "
        "different bytes\n",
        name, all - a.tensors.size());
  result.add(same, fmt::format("{} of {} steps", name, steps_of(a)));
}

// Compares the newest checkpoints, then the checkpoints that both runs have under the same name.
void compare_checkpoints(const Runs& runs, Comparison& result) {
  std::set<std::string> names;
  bool newest = false;
  for (const auto& entry : fs::directory_iterator(runs.a)) {
    const auto name = entry.path().filename().string();
    if (entry.path().extension() != ".ckpt" || name == kBestFile) continue;
    if (!fs::exists(runs.b / name)) continue;
    if (name == kCheckpointFile)
      newest = true;
    else
      names.insert(name);
  }
  result.whole = result.whole && newest;
  if (newest)
    compare_checkpoint(runs, kCheckpointFile, result);
  else
    print_output("{}: not in both runs, not compared\n", kCheckpointFile);
  for (const auto& name : names) compare_checkpoint(runs, name, result);
}

int print_result(const Comparison& result) {
  if (!result.same) {
    print_output("different\n");
    return kFailure;
  }
  if (result.whole) {
    print_output("the same\n");
    return kSuccess;
  }
  print_output("the same so far: {}\n", fmt::join(result.compared, "; "));
  return kSameSoFar;
}

int verify_command(const fs::path& a, const fs::path& b) {
  const Runs runs{a, b, read_run_config(a), read_run_config(b)};
  Comparison result;
  compare_settings(runs, result);
  compare_progress(runs, result);
  compare_checkpoints(runs, result);
  require(!result.compared.empty(),
          "{} and {} have nothing to compare: no common rows of {}, and no checkpoints at the same "
          "step",
          a.string(), b.string(), kProgressFile);
  if (!result.same && (runs.config_a.asynchronous || runs.config_b.asynchronous))
    print_output("asynchronous runs depend on timing and are not expected to be the same\n");
  return print_result(result);
}

}  // namespace

void add_verify(CLI::App& app, Command& chosen) {
  auto runs = std::make_shared<std::pair<fs::path, fs::path>>();
  auto* command =
      app.add_subcommand("verify",
                         "Compare two runs bit for bit and report the first difference. "
                         "Exit status: 0: the same, 1: different, "
                         "3: the same as far as both have come");
  command->add_option("A", runs->first, "Run folder")->type_name("")->required();
  command->add_option("B", runs->second, "Run folder to compare it with")
      ->type_name("")
      ->required();
  command->callback([runs, &chosen] {
    chosen = [runs](char**) { return verify_command(runs->first, runs->second); };
  });
}

}  // namespace shoal::cli
