#include "cli/curves.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "shoal/core/error.h"
#include "shoal/runners/checkpoint.h"
#include "shoal/runners/config.h"
#include "tests/runners/temporary_folder.h"
#include "tests/support/message_of.h"

namespace shoal::cli {
namespace {

class CurvesTest : public testing::Test {
 protected:
  // Makes a run folder with this progress.
  std::filesystem::path run(const std::string& name, const std::string& progress,
                            const std::vector<std::pair<std::string, std::string>>& settings = {}) {
    Config config = preset("cartpole-ppo");
    for (const auto& [key, value] : settings) set(config, key, value);
    const auto folder = folder_ / name;
    std::filesystem::create_directory(folder);
    write_file(folder / kConfigFile, write_config(config));
    write_file(folder / "progress.csv", progress);
    return folder;
  }
  TemporaryFolder folder_;
};

TEST_F(CurvesTest, OneRunIsDrawnAsItIs) {
  const auto curves = read_curves({run("a", "steps,return_mean\n1,nan\n2,5\n4,\n7,6.5\n9,1")}, {});
  ASSERT_EQ(curves.size(), 1U);
  EXPECT_EQ(curves[0].runs, 1);
  EXPECT_EQ(curves[0].label, "");
  EXPECT_EQ(curves[0].x, (std::vector<double>{2, 7})) << "without empty cells and half a last line";
  EXPECT_EQ(curves[0].mean, (std::vector<double>{5, 6.5}));
  EXPECT_TRUE(curves[0].low.empty());
}

// Three numbers 1, 2, 6: mean 3, deviation sqrt(7); t of two degrees of freedom: 4.302653.
TEST_F(CurvesTest, RunsOfOtherSeedsAreAveragedWhereAllHaveBeen) {
  const auto curves =
      read_curves({run("a", "steps,return_mean\n0,1\n100,1\n", {{"seed", "1"}}),
                   run("b", "steps,return_mean\n10,0\n30,4\n80,4\n", {{"seed", "2"}}),  // 2 at 20
                   run("c", "steps,return_mean\n0,6\n90,6\n", {{"seed", "3"}})},
                  {});
  ASSERT_EQ(curves.size(), 1U);
  EXPECT_EQ(curves[0].runs, 3);
  EXPECT_TRUE(curves[0].lines.empty());
  EXPECT_EQ(curves[0].x.front(), 10);
  EXPECT_EQ(curves[0].x.back(), 80);
  const std::size_t at_20 = 400 * (20 - 10) / (80 - 10) + 1;  // the next point after it
  const double x = curves[0].x[at_20], second = (x - 10) / 5;
  EXPECT_NEAR(x, 20, 0.2);
  EXPECT_NEAR(curves[0].mean[at_20], (1 + second + 6) / 3, 1e-12);
  EXPECT_NEAR(curves[0].high[at_20] - curves[0].mean[at_20], 4.302653 * std::sqrt(7.0 / 3), 0.02);
  EXPECT_NEAR(curves[0].mean[at_20] - curves[0].low[at_20], 4.302653 * std::sqrt(7.0 / 3), 0.02);
}

// The interval of 1, 2 and 6 is 3 ± 6.57.
TEST_F(CurvesTest, ABandStaysWithinTheReturnsThatTheRunsHaveHad) {
  const std::string head = "steps,return_mean,return_min,return_max\n";
  const auto curves = read_curves({run("a", head + "0,1,nan,nan\n100,1,0.5,1\n", {{"seed", "1"}}),
                                   run("b", head + "0,2,0,8\n100,2,1,2\n", {{"seed", "2"}}),
                                   run("c", head + "0,6,6,6\n100,6,6,6\n", {{"seed", "3"}})},
                                  {});
  ASSERT_EQ(curves.size(), 1U);
  EXPECT_EQ(curves[0].low, std::vector<double>(401, 0));
  EXPECT_EQ(curves[0].high, std::vector<double>(401, 8));
  EXPECT_EQ(curves[0].env, "CartPole-v1");
}

TEST_F(CurvesTest, TwoRunsHaveNoBandAndAreShownAsTheyAre) {
  const auto curves = read_curves({run("a", "steps,return_mean\n0,1\n100,1\n", {{"seed", "1"}}),
                                   run("b", "steps,return_mean\n10,3\n80,5\n", {{"seed", "2"}})},
                                  {});
  ASSERT_EQ(curves.size(), 1U);
  EXPECT_EQ(curves[0].x.back(), 80);
  EXPECT_EQ(curves[0].mean.back(), 3);
  EXPECT_TRUE(curves[0].low.empty());
  EXPECT_TRUE(curves[0].high.empty());
  ASSERT_EQ(curves[0].lines.size(), 2U);
  EXPECT_EQ(curves[0].lines[0].x, (std::vector<double>{0, 100})) << "beyond the end of the other";
  EXPECT_EQ(curves[0].lines[1].y, (std::vector<double>{3, 5}));
}

TEST_F(CurvesTest, ATitleNamesTheEnvironments) {
  const std::string progress = "steps,return_mean\n1,1\n2,2\n";
  const auto a = run("a", progress), b = run("b", progress, {{"seed", "9"}}),
             c = run("c", progress, {{"env.id", "Acrobot-v1"}});
  EXPECT_EQ(title_of(read_curves({a, b}, {}), "return_mean"),
            "CartPole-v1: mean return of the last 100 episodes");
  EXPECT_EQ(title_of(read_curves({a, c}, {}), "sps"), "CartPole-v1, Acrobot-v1: sps");
}

TEST_F(CurvesTest, ALabelTellsWhatIsDifferent) {
  const std::string progress = "steps,return_mean\n1,1\n2,2\n";
  auto curves =
      read_curves({run("a", progress), run("b", progress, {{"ppo.clip", "0.1"}, {"seed", "9"}}),
                   run("c", progress, {{"seed", "2"}})},
                  {});
  ASSERT_EQ(curves.size(), 2U);
  EXPECT_EQ(curves[0].label, "ppo.clip=0.25");
  EXPECT_EQ(curves[0].runs, 2);
  EXPECT_EQ(curves[1].label, "ppo.clip=0.1");
  Config other = preset("cartpole-a2c");
  write_file(run("d", progress) / kConfigFile, write_config(other));
  curves = read_curves({folder_ / "a", folder_ / "d"}, {});
  EXPECT_EQ(curves[1].label, "cartpole-a2c") << "a preset's name stands for all it sets";
}

TEST_F(CurvesTest, ALabelNamesNoSettingsThatTheOthersDoNotHave) {
  const std::string progress = "steps,return_mean\n1,1\n2,2\n";
  const auto curves = read_curves(
      {run("a", progress), run("b", progress, {{"algo", "a2c"}, {"sampler.horizon", "7"}}),
       run("c", progress, {{"sampler.asynchronous", "true"}})},
      {});
  ASSERT_EQ(curves.size(), 3U);
  EXPECT_EQ(curves[0].label, "algo=ppo sampler.asynchronous=false");
  EXPECT_EQ(curves[1].label, "algo=a2c") << "an algorithm stands for what is set for it";
  EXPECT_EQ(curves[2].label, "algo=ppo sampler.asynchronous=true");
}

TEST_F(CurvesTest, RunsThatHaveNothingInCommonYetAreAnError) {
  const auto a = run("a", "steps,return_mean\n1,1\n2,2\n"),
             b = run("b", "steps,return_mean\n5,1\n6,2\n", {{"seed", "2"}});
  EXPECT_THROW(read_curves({a, b}, {}), Error);
}

TEST_F(CurvesTest, WhereARunTookPlaceDoesNotSetItApart) {
  const std::string progress = "steps,return_mean\n1,1\n2,2\n";
  const auto curves = read_curves(
      {run("a", progress), run("b", progress, {{"device", "cuda:1"}, {"tensorboard", "true"}})},
      {});
  EXPECT_EQ(curves.size(), 1U);
}

TEST_F(CurvesTest, WorkersOfAnAsynchronousRunDo) {
  const std::string progress = "steps,return_mean\n1,1\n2,2\n";
  for (const std::string asynchronous : {"false", "true"}) {
    const auto with = [&](const std::string& workers) {
      return run(asynchronous + workers, progress,
                 {{"sampler.asynchronous", asynchronous}, {"sampler.workers", workers}});
    };
    EXPECT_EQ(read_curves({with("1"), with("2")}, {}).size(), asynchronous == "true" ? 2U : 1U);
  }
}

TEST_F(CurvesTest, ARunCountsOnce) {
  const auto a = run("a", "steps,return_mean\n1,1\n2,2\n");
  EXPECT_EQ(read_curves({a, folder_ / "." / "a"}, {})[0].runs, 1);
}

TEST_F(CurvesTest, ARunWithoutValuesIsLeftOut) {
  const auto empty = run("empty", ""), none = run("none", "steps,return_mean\n1,nan\n");
  testing::internal::CaptureStderr();
  const auto curves = read_curves({empty, run("a", "steps,return_mean\n1,1\n2,2\n"), none}, {});
  const auto said = testing::internal::GetCapturedStderr();
  ASSERT_EQ(curves.size(), 1U);
  EXPECT_EQ(curves[0].runs, 1);
  for (const auto& run : {empty, none})
    EXPECT_NE(said.find(run.string() + " is left out"), std::string::npos) << said;
}

TEST_F(CurvesTest, NamesWhatIsMissing) {
  const auto folder = run("a", "steps,return_mean\n1,nan\n");
  const auto unfinished = message_of([&] { read_curves({folder, run("b", "")}, {}); });
  EXPECT_NE(unfinished.find("no run has values in column 'return_mean'"), std::string::npos);
  const auto text = message_of([&] { read_curves({folder}, {.y = "retrun"}); });
  EXPECT_NE(text.find("steps, return_mean"), std::string::npos) << text;
  EXPECT_THROW(read_curves({folder_ / "none"}, {}), Error);
}

}  // namespace
}  // namespace shoal::cli
