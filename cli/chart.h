#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "cli/curves.h"

namespace shoal::cli {

struct ChartOptions {
  std::string title, x_label;
  std::optional<double> goal = {};  // a dashed line at this height
};

// Draws the curves, each with its band and a line of the legend. The file's ending decides: .png or
// .svg; the latter has no background, and reads on light and dark pages. Throws Error for another
// one, and if the file cannot be written.
void draw_chart(const std::filesystem::path& file, const std::vector<Curve>& curves,
                const ChartOptions& options);

// Round numbers, at most about `about` of them, from at or below `low` to at or above `high`.
std::vector<double> ticks(double low, double high, int about = 5);

}  // namespace shoal::cli
