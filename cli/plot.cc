#include <CLI/CLI.hpp>
#include <cmath>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/chart.h"
#include "cli/commands.h"
#include "cli/curves.h"
#include "shoal/core/error.h"
#include "src/core/print.h"

namespace shoal::cli {
namespace {

struct PlotFlags {
  std::vector<std::filesystem::path> runs, out = {"curves.png"};
  Axes axes;
  std::string title, x_label;
  std::optional<double> goal;
};

int plot_command(const PlotFlags& flags) {
  if (flags.goal)
    require(std::isfinite(*flags.goal), "--goal: found {}, expected a finite number", *flags.goal);
  const auto curves = read_curves(flags.runs, flags.axes);
  for (const auto& file : flags.out) {
    draw_chart(file, curves,
               {.title = flags.title.empty() ? title_of(curves, flags.axes.y) : flags.title,
                .x_label = flags.x_label.empty() ? flags.axes.x : flags.x_label,
                .goal = flags.goal});
    print_output("{}\n", file.string());
  }
  return kSuccess;
}

}  // namespace

void add_plot(CLI::App& app, Command& chosen) {
  auto flags = std::make_shared<PlotFlags>();
  auto* command = app.add_subcommand(
      "plot", "Draw learning curves: one per configuration, averaged over its seeds");
  command->add_option("RUN", flags->runs, "Run folders")->type_name("")->required();
  command->add_option("--out", flags->out, "Image file, .png or .svg; may be repeated")
      ->capture_default_str()
      ->take_all()
      ->allow_extra_args(false);
  command->add_option("--x", flags->axes.x, "Column of progress.csv on the x axis")
      ->capture_default_str();
  command->add_option("--y", flags->axes.y, "Column of progress.csv on the y axis")
      ->capture_default_str();
  command->add_option("--title", flags->title,
                      "Title of the chart; default: the environment and the column of the y axis");
  command->add_option("--x-label", flags->x_label,
                      "Label of the x axis; default: the name of the column");
  command->add_option("--goal", flags->goal, "Draw a labelled, dashed line at this value of y");
  command->callback(
      [flags, &chosen] { chosen = [flags](char**) { return plot_command(*flags); }; });
}

}  // namespace shoal::cli
