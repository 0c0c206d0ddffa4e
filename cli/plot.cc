#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/chart.h"
#include "cli/commands.h"
#include "cli/curves.h"

namespace shoal::cli {
namespace {

struct PlotFlags {
  std::vector<std::filesystem::path> runs, out = {"curves.png"};
  Axes axes;
  std::string title = "Mean return of the last 100 episodes", x_label;
  std::optional<double> goal;
};

int plot_command(const PlotFlags& flags) {
  const auto curves = read_curves(flags.runs, flags.axes);
  for (const auto& file : flags.out) {
    draw_chart(file, curves,
               {.title = flags.title,
                .x_label = flags.x_label.empty() ? flags.axes.x : flags.x_label,
                .goal = flags.goal});
    fmt::print("{}\n", file.string());
  }
  return kSuccess;
}

}  // namespace

void add_plot(CLI::App& app, Command& chosen) {
  auto flags = std::make_shared<PlotFlags>();
  auto* command = app.add_subcommand(
      "plot", "Draw learning curves: one for all runs that differ in their seed alone");
  command->add_option("RUN", flags->runs, "Run folders")->type_name("")->required();
  command->add_option("--out", flags->out, "The picture, .png or .svg; may be repeated")
      ->capture_default_str()
      ->take_all()
      ->allow_extra_args(false);
  command->add_option("--x", flags->axes.x, "Column of progress.csv")->capture_default_str();
  command->add_option("--y", flags->axes.y, "Column of progress.csv")->capture_default_str();
  command->add_option("--title", flags->title, "What to write above")->capture_default_str();
  command->add_option("--x-label", flags->x_label, "What to write below; default: the column");
  command->add_option("--goal", flags->goal, "A dashed line at this return");
  command->callback(
      [flags, &chosen] { chosen = [flags](char**) { return plot_command(*flags); }; });
}

}  // namespace shoal::cli
