#include "shoal/runners/session.h"

#include <gtest/gtest.h>

#include <csignal>
#include <nlohmann/json.hpp>
#include <sstream>

#include "shoal/core/error.h"
#include "shoal/runners/checkpoint.h"
#include "tests/runners/temporary_folder.h"
#include "tests/runners/toy_parts.h"

namespace fs = std::filesystem;

namespace shoal {
namespace {

// A window of 10 steps in which `ended` episodes with this score ended.
struct Window {
  explicit Window(double score = 0, int ended = 0)
      : episodes(ended, {.length = 5, .reward = score, .score = score}) {
    samples.T = 5;
    samples.B = 2;
  }
  Batch batch() const { return {samples, episodes}; }

  Samples samples;
  std::vector<Episode> episodes;
};

struct Parts {
  explicit Parts(const fs::path& folder) : session(config(), folder, true) {}

  static Config config() {
    Config config = preset("cartpole-ppo");
    config.steps = 100;
    config.schedule_steps = 200;
    return config;
  }
  void once(const Window& window) {
    const auto progress = session.advance(window.batch());
    session.report(algo.update(window.samples, progress), {});
  }

  IdleAgent agent;
  IdleAlgo algo;
  Session session;
};

std::vector<std::string> lines_of(const fs::path& file) {
  std::istringstream text(read_file(file));
  std::vector<std::string> lines;
  for (std::string line; std::getline(text, line);) lines.push_back(line);
  return lines;
}

TEST(Session, LeavesACompleteRunFolder) {
  const TemporaryFolder folder;
  Parts p(folder / "run");
  p.session.begin(p.agent, p.algo);
  int windows = 0;
  for (; p.session.running(); ++windows) p.once(Window(windows, 1));
  p.session.finish();
  EXPECT_EQ(windows, 10);
  EXPECT_EQ(write_config(read_config(folder / "run/config.toml")), write_config(Parts::config()));

  const auto rows = lines_of(folder / "run/progress.csv");
  ASSERT_EQ(rows.size(), 11U);
  EXPECT_TRUE(rows[0].starts_with("steps,seconds,sps,updates,episodes,return_mean")) << rows[0];
  EXPECT_TRUE(rows[0].ends_with("share_learning,remaining")) << rows[0];
  EXPECT_TRUE(rows[10].starts_with("100,")) << rows[10];
  EXPECT_TRUE(rows[10].ends_with(",0.5"))
      << "schedule_steps, not steps, sets the schedule: " << rows[10];

  const auto summary = nlohmann::json::parse(read_file(folder / "run/summary.json"));
  EXPECT_EQ(summary.at("final_return"), 4.5);
  EXPECT_EQ(summary.at("steps"), 100);
  EXPECT_EQ(summary.at("seed"), 1);
  for (const char* key : {"seconds", "sps", "version"}) EXPECT_TRUE(summary.contains(key)) << key;

  const auto checkpoint = read_checkpoint(folder / "run/model.ckpt");
  EXPECT_EQ(checkpoint.counters.at("steps"), 100);
  EXPECT_TRUE(at::equal(checkpoint.tensors.at("agent/weight"), p.agent.weight));
  EXPECT_EQ(checkpoint.tensors.at("algo/step").item<std::int64_t>(), 10);
}

TEST(Session, StopsAtTheReturnOfAHundredEpisodes) {
  const TemporaryFolder folder;
  Parts p(folder / "run");
  p.session.begin(p.agent, p.algo);
  p.once(Window(1000, 99));
  EXPECT_TRUE(p.session.running()) << "99 episodes are too few to judge";
  p.once(Window(0, 1));
  EXPECT_FALSE(p.session.running());
  p.once(Window(0, 60));
  EXPECT_TRUE(p.session.running()) << "only the last hundred count";
}

TEST(Session, ASignalStopsItWithACheckpoint) {
  const TemporaryFolder folder;
  Parts p(folder / "run");
  p.session.begin(p.agent, p.algo);
  std::raise(SIGTERM);
  EXPECT_FALSE(p.session.running());
  EXPECT_EQ(p.session.stop_signal(), SIGTERM);
  p.session.finish();
  EXPECT_EQ(read_checkpoint(folder / "run/model.ckpt").counters.at("steps"), 0);
  EXPECT_TRUE(
      nlohmann::json::parse(read_file(folder / "run/summary.json")).at("final_return").is_null());
}

TEST(Session, WithoutABeginningThereIsNoFolder) {
  const TemporaryFolder folder;
  { const Parts p(folder / "some/run"); }
  EXPECT_FALSE(fs::exists(folder / "some"));
  Config wrong = Parts::config();
  wrong.sampler.envs = 0;
  EXPECT_THROW(Session(wrong, folder / "run", true), Error);
  EXPECT_FALSE(fs::exists(folder / "run"));
}

TEST(Session, RefusesTheFolderOfAnotherRun) {
  const TemporaryFolder folder;
  Parts p(folder / "run");
  p.session.begin(p.agent, p.algo);
  p.session.finish();
  EXPECT_THROW(Session(Parts::config(), folder / "run", true), Error);
  EXPECT_TRUE(fs::exists(folder / "run/summary.json"));
}

TEST(SignalGuardDeathTest, TheSecondSignalIsImmediate) {
  EXPECT_EXIT(
      {
        const SignalGuard guard;
        std::raise(SIGINT);
        std::raise(SIGINT);
      },
      testing::ExitedWithCode(130), "");
}

}  // namespace
}  // namespace shoal
