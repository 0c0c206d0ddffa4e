#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "cli/curves.h"

namespace shoal::cli {

struct ChartOptions {
  std::string title, x_label;
  std::optional<double> goal = {};  // a labelled, dashed line at this height
};

// Draws each curve with its confidence band or its two runs, and a line of the legend. The suffix
// of the file selects the format, .png or .svg. An .svg file has no background and suits light and
// dark pages. Throws Error for another suffix, and if the file cannot be written.
void draw_chart(const std::filesystem::path& file, const std::vector<Curve>& curves,
                const ChartOptions& options);

// Round numbers, about `about` at most, that enclose [low, high].
std::vector<double> ticks(double low, double high, int about = 5);

}  // namespace shoal::cli
