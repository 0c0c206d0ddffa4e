#include "cli/curves.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <set>
#include <string_view>
#include <system_error>

#include "cli/commands.h"
#include "cli/confidence.h"
#include "runners/preset_names.h"
#include "shoal/core/error.h"
#include "shoal/runners/config.h"
#include "shoal/runners/progress_file.h"
#include "shoal/runners/session.h"
#include "src/core/print.h"

namespace fs = std::filesystem;

namespace shoal::cli {
namespace {

using RunSettings = std::map<std::string, std::string>;

struct Points {
  Line line;
  // The extremes of a column NAME_mean, from NAME_min and NAME_max.
  double least = -std::numeric_limits<double>::infinity();
  double most = std::numeric_limits<double>::infinity();
};

struct Group {
  RunSettings settings;
  std::vector<Points> runs;
};

const std::vector<double>& column(const Named<std::vector<double>>& table, const std::string& name,
                                  const fs::path& file) {
  if (table.contains(name)) return table.at(name);
  std::vector<std::string> names;
  for (const auto& [known, numbers] : table) names.push_back(known);
  throw Error("{} has no column '{}'; it has {}", file.string(), name, fmt::join(names, ", "));
}

// The extreme of the finite numbers; NaN if there is none.
template <class Compare>
double extreme(const std::vector<double>& numbers, Compare comes_first) {
  auto found = std::numeric_limits<double>::quiet_NaN();
  for (const double number : numbers)
    if (std::isfinite(number) && (std::isnan(found) || comes_first(number, found))) found = number;
  return found;
}

// Empty if the run has no such values yet.
Points read_points(const fs::path& run, const Axes& axes) {
  const auto file = run / kProgressFile;
  const auto table = read_progress(file);
  Points points;
  if (table.empty()) return points;
  const auto &x = column(table, axes.x, file), &y = column(table, axes.y, file);
  for (std::size_t i = 0; i < x.size(); ++i) {
    if (!std::isfinite(x[i]) || !std::isfinite(y[i])) continue;
    points.line.x.push_back(x[i]);
    points.line.y.push_back(y[i]);
  }
  constexpr std::string_view kMean = "_mean";
  if (!axes.y.ends_with(kMean)) return points;
  const auto name = axes.y.substr(0, axes.y.size() - kMean.size());
  if (!table.contains(name + "_min") || !table.contains(name + "_max")) return points;
  points.least = extreme(table.at(name + "_min"), std::less());
  points.most = extreme(table.at(name + "_max"), std::greater());
  return points;
}

// The settings that determine a run, except its seed.
RunSettings settings_of(const fs::path& run) {
  RunSettings settings;
  const auto config = read_run_config(run);
  const auto counts = [&](const std::string& key) {
    // In an asynchronous run they change the samples that each update learns from.
    const bool of_sampler = key == "sampler.kind" || key == "sampler.workers";
    return !may_change(key) || key == "steps" || key == "schedule_steps" ||
           (of_sampler && config.asynchronous);
  };
  for (const auto& [key, value, doc] : setting_docs(config))
    if (key != "seed" && counts(key)) settings[key] = value;
  return settings;
}

double value_at(const Line& line, double x) {
  const auto right = std::ranges::lower_bound(line.x, x) - line.x.begin();
  if (right == 0) return line.y.front();
  if (right == std::ssize(line.x)) return line.y.back();
  const double before = line.x[right - 1], share = (x - before) / (line.x[right] - before);
  return line.y[right - 1] + share * (line.y[right] - line.y[right - 1]);
}

Curve average(const std::vector<Points>& runs) {
  constexpr int kPoints = 400;
  const auto n = static_cast<double>(runs.size());
  double first = runs[0].line.x.front(), last = runs[0].line.x.back();
  double least = runs[0].least, most = runs[0].most;
  for (const auto& run : runs) {
    least = std::min(least, run.least);
    most = std::max(most, run.most);
    first = std::max(first, run.line.x.front());
    last = std::min(last, run.line.x.back());
  }
  require(first <= last,
          "the runs of one curve do not overlap yet: one ends at {:g}, another begins at {:g}",
          last, first);
  Curve curve;
  const bool has_band = runs.size() > 2;
  if (!has_band) curve.lines = {runs[0].line, runs[1].line};
  for (int i = 0; i <= kPoints; ++i) {
    const double x = first + (last - first) * i / kPoints;
    double sum = 0, squares = 0;
    for (const auto& run : runs) sum += value_at(run.line, x);
    const double mean = sum / n;
    curve.x.push_back(x);
    curve.mean.push_back(mean);
    if (!has_band) continue;
    for (const auto& run : runs) squares += std::pow(value_at(run.line, x) - mean, 2);
    const double half = half_interval(squares, runs.size());
    curve.low.push_back(std::max(mean - half, std::min(least, mean)));
    curve.high.push_back(std::min(mean + half, std::max(most, mean)));
  }
  return curve;
}

std::string word(std::string toml) {
  std::erase(toml, '"');
  return toml;
}

// The preset; of a run without one, the algorithm.
std::string name_of(const RunSettings& settings) {
  const auto base = word(settings.at("base"));
  return base.starts_with(kDefaultsFolder) ? word(settings.at("algo")) : base;
}

// The preset, unless all groups share it, the algorithm, if groups of this preset have several, and
// the settings that differ between groups of this preset and algorithm.
std::string label_of(const RunSettings& settings, const std::vector<Group>& groups) {
  const auto& preset = settings.at("base");
  const bool one_preset = std::ranges::all_of(
      groups, [&](const Group& group) { return group.settings.at("base") == preset; });
  std::vector<std::string> parts;
  if (!one_preset) parts.push_back(name_of(settings));
  for (const auto& setting : settings) {
    const bool differs = std::ranges::any_of(groups, [&](const Group& group) {
      if (group.settings.at("base") != preset) return false;
      if (setting.first != "algo" && group.settings.at("algo") != settings.at("algo")) return false;
      // A run that waits for its samples has other settings.
      const auto other = group.settings.find(setting.first);
      return other != group.settings.end() && other->second != setting.second;
    });
    if (differs) parts.push_back(fmt::format("{}={}", setting.first, word(setting.second)));
  }
  return fmt::format("{}", fmt::join(parts, " "));
}

}  // namespace

std::vector<Curve> read_curves(const std::vector<fs::path>& runs, const Axes& axes) {
  std::vector<Group> groups;
  std::set<fs::path> seen;
  for (const auto& run : runs) {
    std::error_code unknown;
    const auto folder = fs::weakly_canonical(run, unknown);
    if (!unknown && !seen.insert(folder).second) continue;  // a shell pattern may list it twice
    const auto settings = settings_of(run);
    auto points = read_points(run, axes);
    if (points.line.x.empty()) {
      print_error("{} is left out: it has no values in column '{}' yet\n", run.string(), axes.y);
      continue;
    }
    auto group = std::ranges::find(groups, settings, &Group::settings);
    if (group == groups.end()) group = groups.insert(group, {.settings = settings, .runs = {}});
    group->runs.push_back(std::move(points));
  }
  require(!groups.empty(), "no run has values in column '{}' yet", axes.y);
  std::vector<Curve> curves;
  for (const auto& [settings, points] : groups) {
    Curve curve;
    if (points.size() == 1) {
      curve.x = points[0].line.x;
      curve.mean = points[0].line.y;
    } else {
      curve = average(points);
    }
    curve.runs = static_cast<int>(points.size());
    curve.label = label_of(settings, groups);
    curve.env = word(settings.at("env.id"));
    curves.push_back(std::move(curve));
  }
  return curves;
}

std::string title_of(const std::vector<Curve>& curves, const std::string& y) {
  std::vector<std::string> envs;
  for (const auto& curve : curves)
    if (std::ranges::count(envs, curve.env) == 0) envs.push_back(curve.env);
  return fmt::format("{}: {}", fmt::join(envs, ", "),
                     y == Axes().y ? "mean return of the last 100 episodes" : y);
}

}  // namespace shoal::cli
