#include "cli/chart.h"

#include <gtest/gtest.h>

#include "shoal/core/error.h"
#include "shoal/runners/checkpoint.h"
#include "tests/runners/temporary_folder.h"

namespace shoal::cli {
namespace {

TEST(TicksTest, AreRoundAndCoverTheRange) {
  EXPECT_EQ(ticks(0, 500), (std::vector<double>{0, 100, 200, 300, 400, 500}));
  EXPECT_EQ(ticks(-21, 18), (std::vector<double>{-30, -20, -10, 0, 10, 20}));
  EXPECT_EQ(ticks(3, 3.9),
            (std::vector<double>{3, 3.2, 3.4000000000000004, 3.6, 3.8000000000000003, 4}));
  for (const double high : {1e-6, 0.3, 7.0, 99.0, 12345.0, 5e6}) {
    const auto numbers = ticks(0, high);
    EXPECT_GE(numbers.size(), 3U) << high;
    EXPECT_LE(numbers.size(), 7U) << high;
    EXPECT_EQ(numbers.front(), 0) << high;
    EXPECT_GE(numbers.back(), high * (1 - 1e-9)) << high;
  }
}

TEST(ChartTest, BothKindsOfFilesAreWritten) {
  const TemporaryFolder folder;
  const std::vector<Curve> curves = {
      {.label = "a", .runs = 3, .x = {0, 1}, .mean = {1, 2}, .low = {0, 1}, .high = {2, 3}},
      {.label = "", .runs = 1, .x = {0}, .mean = {1}, .low = {}, .high = {}}};
  draw_chart(folder / "c.png", curves, {.title = "t", .x_label = "x", .goal = 1.5});
  draw_chart(folder / "c.svg", curves, {.title = "t", .x_label = "x"});
  EXPECT_EQ(read_file(folder / "c.png").substr(1, 3), "PNG");
  EXPECT_NE(read_file(folder / "c.svg").find("<svg"), std::string::npos);
}

// The letters of an .svg are references to shapes: a label adds its own.
TEST(ChartTest, AGoalHasALabel) {
  const TemporaryFolder folder;
  const Curve curve{.label = "", .runs = 1, .x = {0, 1}, .mean = {1, 2}, .low = {}, .high = {}};
  const auto letters = [&](std::optional<double> goal) {
    draw_chart(folder / "c.svg", {curve}, {.title = "", .x_label = "", .goal = goal});
    const auto text = read_file(folder / "c.svg");
    int uses = 0;
    for (auto at = text.find("<use"); at != std::string::npos; at = text.find("<use", at + 1))
      ++uses;
    return uses;
  };
  EXPECT_EQ(letters(1.5) - letters({}), 8) << "goal 1.5";
}

// The two runs of a curve may reach beyond their mean.
TEST(ChartTest, TheAxesCoverTheRunsOfACurve) {
  const TemporaryFolder folder;
  Curve curve{.label = "", .runs = 2, .x = {0, 1}, .mean = {1, 2}, .low = {}, .high = {}};
  const auto chart = [&] {
    draw_chart(folder / "c.svg", {curve}, {.title = "", .x_label = ""});
    return read_file(folder / "c.svg");
  };
  const auto alone = chart();
  curve.lines = {{.x = {0, 1}, .y = {1, 2}}, {.x = {0, 7}, .y = {1, 90}}};
  const auto with_runs = chart();
  curve.x = {0, 7};
  curve.mean = {1, 90};
  curve.lines.clear();
  const auto longer = chart();
  // The paths before the first line.
  const auto axes = [](const std::string& text) {
    const auto begin = text.find("<path", text.find("</defs>"));
    return text.substr(begin, text.rfind("<path", text.find("rgb(18%")) - begin);
  };
  EXPECT_NE(axes(with_runs), axes(alone));
  EXPECT_EQ(axes(with_runs), axes(longer));
}

TEST(ChartTest, ACurveThatIsFlatIsDrawn) {
  const TemporaryFolder folder;
  for (const double height : {-500.0, 0.0, 1e12}) {
    const Curve curve{
        .label = "", .runs = 1, .x = {1, 2}, .mean = {height, height}, .low = {}, .high = {}};
    draw_chart(folder / "c.svg", {curve}, {.title = "", .x_label = ""});
    EXPECT_EQ(read_file(folder / "c.svg").find("nan"), std::string::npos) << height;
  }
}

TEST(ChartTest, AnAxisNeedsNumbersAboveZero) {
  const Curve curve{.label = "", .runs = 1, .x = {-2, 0}, .mean = {1, 2}, .low = {}, .high = {}};
  const TemporaryFolder folder;
  EXPECT_THROW(draw_chart(folder / "c.png", {curve}, {.title = "", .x_label = "a"}), Error);
}

TEST(ChartTest, ANameOfAnotherKindAndAMissingFolderAreErrors) {
  const std::vector<Curve> curves = {
      {.label = "", .runs = 1, .x = {0, 1}, .mean = {1, 2}, .low = {}, .high = {}}};
  EXPECT_THROW(draw_chart("c.jpg", curves, {.title = "", .x_label = ""}), Error);
  EXPECT_THROW(draw_chart("/none/c.png", curves, {.title = "", .x_label = ""}), Error);
  EXPECT_THROW(draw_chart("/none/c.svg", curves, {.title = "", .x_label = ""}), Error);
}

}  // namespace
}  // namespace shoal::cli
