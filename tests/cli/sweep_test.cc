#include "cli/sweep.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "shoal/core/error.h"
#include "shoal/envs/atari.h"
#include "shoal/envs/mujoco.h"
#include "shoal/ipc/worker_group.h"
#include "shoal/runners/checkpoint.h"
#include "tests/runners/temporary_folder.h"
#include "tests/support/message_of.h"

namespace shoal::cli {
namespace {

class SweepTest : public testing::Test {
 protected:
  Sweep read(const std::string& text) {
    write_file(folder_ / "sweep.toml", text);
    return read_sweep(folder_ / "sweep.toml", "out");
  }
  TemporaryFolder folder_;
};

TEST_F(SweepTest, EveryVariantHasEverySeed) {
  const auto sweep = read(R"(
    base = "cartpole-ppo"
    seeds = [3, 1]
    [all]
    ppo.clip = 0.1
    [variant.wide.model]
    hidden = [128, 128]
    [variant.serial]
    sampler.kind = "serial"
    ppo.epochs = 2
  )");
  EXPECT_EQ(sweep.runs[0].base, "cartpole-ppo");
  EXPECT_EQ(sweep.cores, 1);
  std::vector<std::string> folders;
  for (const auto& run : sweep.runs) folders.push_back(run.folder.string());
  EXPECT_EQ(folders,
            (std::vector<std::string>{"out/serial-3", "out/wide-3", "out/serial-1", "out/wide-1"}))
      << "all of the first seed come first";
  EXPECT_EQ(sweep.runs[0].settings,
            (Settings{{"ppo.clip", "0.1"}, {"ppo.epochs", "2"}, {"sampler.kind", "serial"}}));
  EXPECT_EQ(sweep.runs[1].settings,
            (Settings{{"ppo.clip", "0.1"}, {"model.hidden", "[128, 128]"}}));
}

TEST_F(SweepTest, WithoutVariantsThereIsOne) {
  const auto sweep = read("base = \"cartpole-ppo\"\nseeds = [7]\n");
  ASSERT_EQ(sweep.runs.size(), 1U);
  EXPECT_EQ(sweep.runs[0].variant, "cartpole-ppo");
  EXPECT_EQ(sweep.runs[0].folder, "out/cartpole-ppo-7");
}

TEST_F(SweepTest, ARangeMayBeOneSeed) {
  const auto sweep = read("base = \"cartpole-ppo\"\nseeds = \"7\"\n");
  ASSERT_EQ(sweep.runs.size(), 1U);
  EXPECT_EQ(sweep.runs[0].folder, "out/cartpole-ppo-7");
}

TEST_F(SweepTest, TasksThatCannotBeLearnedAreNamed) {
  const std::string base = "base = \"cartpole-ppo\"\nseeds = [1]\n[variant.a]\n";
  EXPECT_NO_THROW(check_tasks(read(base)));
  for (const auto& [setting, word] :
       {std::pair{"env.id = \"CartPole-v9\"", "a: unknown environment 'CartPole-v9'"},
        {"algo = \"sac\"", "continuous control"},
        {"env.info = [\"nope\"]", "nope"}}) {
    const auto sweep = read(base + setting);
    const auto what = message_of([&] { check_tasks(sweep); });
    EXPECT_NE(what.find(word), std::string::npos) << what;
  }
}

TEST_F(SweepTest, SettingsWithoutEffectAreNamedOnce) {
  const auto sweep = read(
      "base = \"cartpole-ppo\"\nseeds = [1, 2]\n[variant.a]\ndqn.batch = 32\n"
      "[variant.b]\ndqn.batch = 64\n[variant.c]\nppo.rho_bar = 2.0\nppo.clip = 0.3\n");
  EXPECT_EQ(notes_of(sweep),
            "a: dqn.batch has no effect with algo = ppo\n"
            "c: ppo.rho_bar has no effect with ppo.vtrace = false\n");
}

TEST_F(SweepTest, TheSweepsOfTheResultsCanBeLaunched) {
  if (mujoco_ids().empty() || atari_ids().empty()) GTEST_SKIP() << "no MuJoCo or no Atari games";
  if (allowed_cores().size() < 2) GTEST_SKIP() << "some runs take two cores";
  int sweeps = 0;
  for (const auto& table : std::filesystem::directory_iterator(SHOAL_RESULTS)) {
    const auto file = table.path() / "sweep.toml";
    if (!std::filesystem::exists(file)) continue;
    const auto sweep = read_sweep(file, "out");
    EXPECT_NO_THROW(check_tasks(sweep)) << file;
    EXPECT_EQ(notes_of(sweep), "") << file;
    ++sweeps;
  }
  EXPECT_GT(sweeps, 0);
}

TEST_F(SweepTest, TheReturnThatSolvesATaskIsNotThatOfAnother) {
  const auto sweep = read(R"(
    base = "acrobot-ppo"
    seeds = [1]
    [variant.a]
    ppo.clip = 0.1
    [variant.b.env]
    id = "CartPole-v1"
    [variant.c]
    stop_return = 400.0
    env.id = "CartPole-v1"
  )");
  EXPECT_EQ(sweep.runs[0].config.stop_return, preset("acrobot-ppo").stop_return);
  EXPECT_TRUE(std::isinf(sweep.runs[1].config.stop_return));
  EXPECT_EQ(sweep.runs[2].config.stop_return, 400);
}

TEST_F(SweepTest, AVariantMayHaveItsOwnBase) {
  const auto sweep = read(R"(
    base = "cartpole-ppo"
    seeds = [1]
    [all]
    steps = 1000
    [variant.actors]
    [variant.values]
    base = "cartpole-dqn"
  )");
  ASSERT_EQ(sweep.runs.size(), 2U);
  EXPECT_EQ(sweep.runs[0].base, "cartpole-ppo");
  EXPECT_EQ(sweep.runs[1].base, "cartpole-dqn");
  EXPECT_EQ(sweep.runs[1].config.algo, "dqn");
  EXPECT_EQ(sweep.runs[1].config.steps, 1000);
  EXPECT_EQ(sweep.runs[1].settings, (Settings{{"steps", "1000"}}));

  const auto in_all = read(R"(
    seeds = [1]
    [all]
    base = "cartpole-ppo"
    [variant.values]
    base = "cartpole-dqn"
  )");
  EXPECT_EQ(in_all.runs[0].base, "cartpole-dqn");

  const auto grid = read("seeds = [1]\n[grid]\nbase = [\"acrobot-ppo\", \"cartpole-dqn\"]\n");
  ASSERT_EQ(grid.runs.size(), 2U);
  EXPECT_EQ(grid.runs[0].config.env_id, "Acrobot-v1");
  EXPECT_EQ(grid.runs[1].config.algo, "dqn");
  EXPECT_NE(message_of([&] {
              read("seeds = [1]\n[variant.a]\nbase = \"acrobot-pp\"\n");
            }).find("a: there is no preset 'acrobot-pp'"),
            std::string::npos);
}

TEST_F(SweepTest, WithoutABaseItBeginsWithTheDefaultsOfTheEnvironment) {
  const auto sweep = read(R"(
    seeds = [7]
    [all]
    env.id = "Pendulum-v1"
    sampler.envs = 4
    [grid]
    algo = ["ppo", "sac"]
  )");
  ASSERT_EQ(sweep.runs.size(), 2U);
  EXPECT_TRUE(sweep.runs[0].folder.string().starts_with("out/Pendulum-v1"));
  EXPECT_EQ(sweep.runs[0].config.base, "defaults/vectors-real");
  EXPECT_EQ(sweep.runs[1].config.base, "defaults/vectors-real-sac");
  EXPECT_EQ(sweep.runs[1].config.sampler.envs, 4);
  EXPECT_NE(message_of([&] { read("seeds = [7]\n"); }).find("neither base nor env.id"),
            std::string::npos);
}

TEST_F(SweepTest, AGridHasEveryCombinationForEveryVariantAndSeed) {
  const auto sweep = read(R"(
    base = "cartpole-ppo"
    seeds = "3-4"
    [grid]
    ppo.clip = [0.1, 0.25]
    model.hidden = [[64, 64], [128]]
  )");
  ASSERT_EQ(sweep.runs.size(), 8U);
  EXPECT_EQ(sweep.runs[1].folder, "out/cartpole-ppo-model.hidden=64x64,ppo.clip=0.25-3");
  EXPECT_EQ(sweep.runs[1].settings, (Settings{{"model.hidden", "[64, 64]"}, {"ppo.clip", "0.25"}}));
  EXPECT_EQ(sweep.runs[2].settings, (Settings{{"model.hidden", "[128]"}, {"ppo.clip", "0.1"}}));
  EXPECT_EQ(sweep.runs[4].config.seed, 4U);
}

TEST_F(SweepTest, TheLargestSeedsAreARange) {
  const auto sweep =
      read("base = \"cartpole-ppo\"\nseeds = \"9223372036854775806-9223372036854775807\"\n");
  ASSERT_EQ(sweep.runs.size(), 2U);
  EXPECT_EQ(sweep.runs[1].config.seed, (std::uint64_t{1} << 63U) - 1);
}

TEST_F(SweepTest, AListOfWordsIsASetting) {
  const auto sweep = read(R"toml(
    base = "cartpole-ppo"
    seeds = [1]
    [all]
    env.info = ["score:sum"]
    [grid]
    gymnasium.wrappers = [["one.Wrapper", "two.Wrapper(size=4)"], []]
  )toml");
  ASSERT_EQ(sweep.runs.size(), 2U);
  EXPECT_EQ(sweep.runs[0].config.env.info, (std::vector<std::string>{"score:sum"}));
  EXPECT_EQ(sweep.runs[0].config.env.gymnasium.wrappers,
            (std::vector<std::string>{"one.Wrapper", "two.Wrapper(size=4)"}));
  EXPECT_EQ(sweep.runs[0].folder,
            "out/cartpole-ppo-gymnasium.wrappers=one.Wrapperxtwo.Wrappersize4-1");
}

TEST_F(SweepTest, DrawsOfANarrowRangeStayWithinIt) {
  const auto sweep = read(R"(
    base = "cartpole-ppo"
    seeds = [1]
    [random]
    draws = 60
    ppo.discount = {low = 0.99, high = 0.9999}
  )");
  EXPECT_GT(sweep.runs.size(), 40U);
  for (const auto& run : sweep.runs) {
    const double discount = std::stod(run.settings.at(0).second);
    EXPECT_GE(discount, 0.99);
    EXPECT_LE(discount, 0.9999);
  }
}

TEST_F(SweepTest, DrawsAreWithinTheirRangesAndStayWhenThereAreMore) {
  const std::string begin = "base = \"cartpole-ppo\"\nseeds = [1]\n[random]\ndraws = ", end = R"(
    ppo.epochs = {low = 2, high = 5}
    ppo.clip = [0.1, 0.3]
    ppo.learning_rate = {low = 1e-5, high = 1e-1, log = true}
  )";
  const auto few = read(begin + "5" + end), many = read(begin + "60" + end);
  ASSERT_GT(many.runs.size(), 50U) << "equal draws are one";
  for (std::size_t i = 0; i < few.runs.size(); ++i)
    EXPECT_EQ(few.runs[i].settings, many.runs[i].settings);
  std::set<std::string> epochs, clips;
  int small = 0;
  for (const auto& run : many.runs) {
    const auto settings = std::map(run.settings.begin(), run.settings.end());
    clips.insert(settings.at("ppo.clip"));
    epochs.insert(settings.at("ppo.epochs"));
    const double rate = std::stod(settings.at("ppo.learning_rate"));
    EXPECT_TRUE(rate >= 1e-5 && rate <= 1e-1) << rate;
    small += rate < 1e-3;
  }
  EXPECT_EQ(epochs, (std::set<std::string>{"2", "3", "4", "5"}));
  EXPECT_EQ(clips, (std::set<std::string>{"0.1", "0.3"}));
  EXPECT_NEAR(small, 30, 15) << "uniform in the logarithm";
}

TEST_F(SweepTest, MistakesAreNamed) {
  const std::string base = "base = \"cartpole-ppo\"\n", seeds = "seeds = [1]\n";
  for (const auto& [text, word] : std::vector<std::pair<std::string, std::string>>{
           {seeds, "neither base"},
           {base + "seeds = \"4-2\"\n", "1-5"},
           {base + "seeds = \"4-\"\n", "1-5"},
           {base + "seeds = \"\"\n", "1-5"},
           {base + seeds + "[grid]\nppo.clip = 0.1\n", "a list of values"},
           {base + seeds + "[grid]\nppo.clip = [-1]\n", "ppo.clip"},
           {base + seeds + "[grid]\nppo.clip = [0.1, 0.10]\n", "two runs have the folder out/"},
           {base + seeds + "[random]\nppo.clip = [0.1]\n", "random.draws"},
           {base + seeds + "[random]\ndraws = 2\nppo.clip = {low = 0.2, high = 0.1}\n", "smaller"},
           {base + seeds + "[tune]\nmin_steps = 9\nmax_steps = 3\n", "not to be larger"},
           {base + seeds + "[tune]\nfactor = 1\n", "tune.min_steps"},
           {base + seeds + "[random]\ndraws = \"3\"\nppo.clip = [0.1]\n",
            "random.draws: found '3', expected a whole number"},
           {base + seeds + "[random]\ndraws = 3.5\nppo.clip = [0.1]\n",
            "draws: found 3.5, expected"},
           {base + seeds + "[random]\ndraws = 0\nppo.clip = [0.1]\n",
            "random.draws: found 0, expected 1 to 10000"},
           {base + seeds + "[random]\ndraws = 2\nseed = \"x\"\nppo.clip = [0.1]\n",
            "random.seed: found 'x', expected a whole number"},
           {base + seeds +
                "[random]\ndraws = 2\nppo.clip = {low = 0.1, high = 0.2, log = \"true\"}\n",
            "random.ppo.clip.log: found 'true', expected true or false"},
           {base + seeds + "[random]\ndraws = 2\nppo.clip = {low = 0.1, high = \"1\"}\n",
            "random.ppo.clip.high: found '1', expected a number"},
           {base + seeds + "[grid]\nbase = [\"" + std::string(200, 'b') + "\"]\n",
            "grid: found a folder name of 218 bytes, made of the settings; expected at most 200"},
           {base + seeds + "[random]\ndraws = 1\nbase = [\"" + std::string(200, 'b') + "\"]\n",
            "random: found a folder name of 218 bytes"},
           {base + seeds + "[tune]\nmin_steps = \"x\"\n",
            "tune.min_steps: found 'x', expected a whole"},
           {base + seeds + "[tune]\nmin_steps = 1\nmax_steps = 9\nfactor = 5000\n",
            "tune.factor: found 5000, expected 2 to 1000"},
           {base, "seeds: found none, expected a list"},
           {base + "seeds = []\n", "seeds: found [], expected a list"},
           {base + "seeds = 5\n", "seeds: found 5, expected a list"},
           {base + "seeds = [1, \"a\"]\n", "seeds: found 'a', expected whole numbers"},
           {base + "seeds = [1, 1]\n", "twice"},
           {base + "seeds = [-1]\n", "0 or more"},
           {base + seeds + "core = 1\n", "the nearest is 'cores'"},
           {base + seeds + "cores = 0\n", "cores: found 0, expected a whole number, 1 or more"},
           {base + seeds + "gpus = 100000\n", "gpus: found 100000, expected at most "},
           {base + seeds + "gpus = -1\n", "gpus: found -1, expected a whole number, 0 or more"},
           {"base = \"a\\u0000b\"\n" + seeds, "base: found 'a?b', expected a word without a zero"},
           {"base = 3\n" + seeds, "base: found 3"},
           {base + seeds + std::string(1 << 20, '#'), "sweep.toml"},
           {base + seeds + "cores = 100000\n", "may use"},
           {"base = \"cartpole-pp\"\n" + seeds, "cartpole-ppo"},
           {base + seeds + "[all]\nppo.clp = 1\n", "ppo.clip"},
           {base + seeds + "[variant.a]\nppo.epochs = 0\n", "a: ppo.epochs"},
           {base + seeds + "[variant.a]\nseed = 4\n", "seeds in the list `seeds`"},
           {base + seeds + "[variant]\na = 4\n", "expected a table"},
           {base + seeds + "variant = 4\n", "variant: found 4, expected a table"},
           {base + seeds + "cores = 4294967297\n", "cores: found 4294967297"},
           {base + seeds + "[variant.\"../a\"]\n", "variant.../a: expected a name of"},
           {base + seeds + "[variant.\".a\"]\n", "or a leading dot"},
           {base + seeds + "[variant.\"a\\u0000b\"]\n", "variant.a?b: expected a name"},
           {base + seeds + "[variant." + std::string(201, 'v') + "]\n", "1 to 200 bytes"},
           {base + seeds + "[variant.\"\"]\n", "variant.: expected a name"},
           {"base = \"" + std::string(201, 'b') + ".toml\"\n" + seeds, "1 to 200 bytes"},
           {"base =\n", "line 1"}}) {
    const auto what = message_of([&, text = text] { read(text); });
    EXPECT_NE(what.find(word), std::string::npos) << text.substr(0, 500) << what;
    EXPECT_LT(what.size(), 500U);
  }
}

}  // namespace
}  // namespace shoal::cli
