#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <limits>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "shoal/core/error.h"
#include "shoal/core/finite.h"
#include "shoal/runners/checkpoint.h"
#include "shoal/runners/checkpoint_files.h"
#include "shoal/runners/session.h"
#include "shoal/runners/train.h"
#include "tests/runners/session_parts.h"
#include "tests/runners/temporary_folder.h"
#include "tests/runners/toy_parts.h"
#include "tests/support/message_of.h"

namespace fs = std::filesystem;

namespace shoal {
namespace {

std::vector<std::string> cells_of(const std::string& row) {
  std::istringstream text(row);
  std::vector<std::string> cells;
  for (std::string cell; std::getline(text, cell, ',');) cells.push_back(cell);
  return cells;
}

// The columns of a row except the columns of time: seconds, sps, share_*.
std::vector<std::string> without_times(const std::string& row, const std::string& header) {
  const auto columns = cells_of(header), all = cells_of(row);
  std::vector<std::string> cells;
  for (std::size_t i = 0; i < columns.size(); ++i)
    if (columns[i] != "seconds" && columns[i] != "sps" && !columns[i].starts_with("share_"))
      cells.push_back(all.at(i));
  return cells;
}

// Session, agent, algorithm and table of a run that stops after `first` rollouts and is resumed.
std::vector<std::string> rows_of_a_run(const fs::path& folder, int first) {
  int rollout = 0;
  {
    SessionParts p(folder);
    p.session.begin(p.agent, p.algo);
    for (; rollout < first; ++rollout) p.once(ToyRollout(rollout, 60));
    p.session.finish();
    p.once(ToyRollout(-1, 1));  // a row after the checkpoint, which must be dropped
  }
  SessionParts p(folder, {.quiet = true, .resume = true});
  p.agent.weight.zero_();
  p.session.begin(p.agent, p.algo);
  EXPECT_EQ(p.agent.weight[1][2].item<float>(), 5);
  EXPECT_EQ(p.algo.step.item<std::int64_t>(), first);
  for (; p.session.running(); ++rollout) p.once(ToyRollout(rollout, 60));
  p.session.finish();
  return lines_of(folder / "progress.csv");
}

TEST(SessionCheckpoint, AResumedRunIsTheOneThatNeverStopped) {
  const TemporaryFolder folder;
  const auto one = rows_of_a_run(folder / "one", 3), other = rows_of_a_run(folder / "other", 7);
  ASSERT_EQ(one.size(), 11U);
  ASSERT_EQ(other.size(), 11U);
  for (std::size_t i = 0; i < one.size(); ++i)
    EXPECT_EQ(without_times(one[i], one[0]), without_times(other[i], one[0]));
}

TEST(SessionCheckpoint, ResumesOnlyWhatCanGoOn) {
  const TemporaryFolder folder;
  const SessionOptions resume{.quiet = true, .resume = true};
  EXPECT_THROW(SessionParts(folder / "none", resume), Error);
  {
    SessionParts p(folder / "run");
    p.session.begin(p.agent, p.algo);
    const auto in_use = message_of([&] { SessionParts(folder / "run", resume); });
    EXPECT_NE(in_use.find("in use by another run"), std::string::npos) << in_use;
    while (p.session.running()) p.once(ToyRollout());
    p.session.finish();
  }
  const auto message = message_of([&] { SessionParts(folder / "run", resume); });
  EXPECT_NE(message.find("has taken 100 of its 100 steps; give more with --steps, and"),
            std::string::npos)
      << message;
  Config more = SessionParts::config();
  more.steps = 200;
  SessionParts p(folder / "run", resume, more);
  p.session.begin(p.agent, p.algo);
  EXPECT_TRUE(p.session.running());
}

TEST(SessionCheckpoint, ResumesOnlyWithTheAlgorithmAndTheAgentOfTheRun) {
  const TemporaryFolder folder;
  const SessionOptions resume{.quiet = true, .resume = true};
  {
    SessionParts p(folder / "run");
    p.session.begin(p.agent, p.algo);
    p.once(ToyRollout());
    p.session.finish();
  }
  auto other = SessionParts::config();
  other.algo = "a2c";
  const auto algo = message_of([&] { SessionParts(folder / "run", resume, other); });
  EXPECT_TRUE(algo.starts_with("algo: found 'a2c', but the run in ")) << algo;
  EXPECT_NE(algo.find("was saved by 'ppo'"), std::string::npos) << algo;

  const auto began_with = [&](const char* name) {
    auto changed = read_checkpoint(folder / "run/model.ckpt");
    changed.tensors.add(name, at::ones({2}));
    write_checkpoint(folder / "run/model.ckpt", changed);
    SessionParts p(folder / "run", resume);
    return message_of([&] { p.session.begin(p.agent, p.algo); });
  };
  const auto algo_tensor = began_with("algo/moment");
  EXPECT_NE(algo_tensor.find("'algo/moment', Float [2], was saved"), std::string::npos)
      << algo_tensor;
  const auto tensor = began_with("agent/bias");
  EXPECT_NE(tensor.find("model.ckpt"), std::string::npos) << tensor;
  EXPECT_NE(tensor.find("'agent/bias', Float [2], was saved, expected no tensor with this name"),
            std::string::npos)
      << tensor;
}

TEST(SessionCheckpoint, CountersOfACheckpointAreInTheirRange) {
  const TemporaryFolder folder;
  const auto run = folder / "run";
  {
    SessionParts p(run);
    p.session.begin(p.agent, p.algo);
    p.once(ToyRollout(0, 1));
    p.session.finish();
  }
  const auto good = read_checkpoint(run / kCheckpointFile);
  for (const auto& [name, value] :
       std::vector<std::pair<std::string, std::int64_t>>{{"steps", -1},
                                                         {"steps", std::int64_t{1} << 62},
                                                         {"row_steps", 11},
                                                         {"updates", -5},
                                                         {"replay_parts", 0}}) {
    auto bad = good;
    if (bad.counters.contains(name))
      bad.counters.at(name) = value;
    else
      bad.counters.add(name, value);
    write_checkpoint(run / kCheckpointFile, bad);
    const auto said = message_of([&] { SessionParts(run, {.quiet = true, .resume = true}); });
    EXPECT_NE(said.find(fmt::format("counter '{}' is {}, expected ", name, value)),
              std::string::npos)
        << said;
  }
}

TEST(SessionCheckpoint, WeightsToBeginWithAreLookedForBeforeAnythingStarts) {
  const TemporaryFolder folder;
  auto config = SessionParts::config();
  for (const auto& run : {(folder / "none").string(), std::string(300, 'x')}) {
    config.init_from = run;
    const auto said = message_of([&] { SessionParts(folder / "run", {.quiet = true}, config); });
    EXPECT_TRUE(said.starts_with("init_from: ")) << said;
    EXPECT_FALSE(fs::exists(folder / "run"));
  }
}

TEST(SessionCheckpoint, BeginsWithTheWeightsOfAnother) {
  const TemporaryFolder folder;
  {
    SessionParts p(folder / "run");
    p.session.begin(p.agent, p.algo);
    p.once(ToyRollout());
    p.session.finish();
  }
  Config config = SessionParts::config();
  config.init_from = folder / "run";
  SessionParts p(folder / "other", {.quiet = true}, config);
  p.agent.weight.zero_();
  p.session.begin(p.agent, p.algo);
  EXPECT_EQ(p.agent.weight[1][2].item<float>(), 5);
  EXPECT_EQ(p.algo.step.item<std::int64_t>(), 0) << "the weights only";
  EXPECT_EQ(p.session.steps(), 0);
}

TEST(SessionCheckpoint, ParametersThatAreNotFiniteAreNotSaved) {
  const TemporaryFolder folder;
  auto config = SessionParts::config();
  config.checkpoint_steps = 10;
  SessionParts p(folder / "run", {.quiet = true}, config);
  p.session.begin(p.agent, p.algo);
  p.once(ToyRollout());
  const auto good = read_file(folder / "run/model.ckpt"),
             rows = read_file(folder / "run/progress.csv");
  p.agent.weight[1][1] = std::numeric_limits<double>::quiet_NaN();
  EXPECT_NE(message_of<DataError>([&] {
              p.once(ToyRollout());
            }).find("after 20 steps and 2 updates the agent's 'weight' holds NaN"),
            std::string::npos);
  p.agent.weight[1][1] = -std::numeric_limits<double>::infinity();
  EXPECT_NE(message_of<DataError>([&] { p.session.finish(); }).find("'weight' holds -inf"),
            std::string::npos);
  EXPECT_EQ(read_file(folder / "run/model.ckpt"), good);
  EXPECT_EQ(read_file(folder / "run/progress.csv"), rows);
  EXPECT_FALSE(fs::exists(folder / "run/summary.json"));
}

TEST(SessionCheckpoint, ParametersThatAreNotFiniteAreFoundInEveryRowAndInTheBestAgent) {
  const TemporaryFolder folder;
  const auto message = [&](const char* name, std::int64_t log_steps, const Metrics& metrics) {
    auto config = SessionParts::config();
    config.checkpoint_steps = 0;
    config.log_steps = log_steps;
    SessionParts p(folder / name, {.quiet = true}, config);
    p.session.begin(p.agent, p.algo);
    p.agent.weight[1][1] = std::numeric_limits<double>::quiet_NaN();
    p.session.advance(ToyRollout().batch());
    return message_of<DataError>([&] { p.session.report(metrics, {}); });
  };
  EXPECT_NE(message("row", 0, {}).find("'weight' holds NaN"), std::string::npos);
  EXPECT_NE(message("best", 1000, {{kEvalReturn, 3.0}}).find("'weight' holds NaN"),
            std::string::npos);
  EXPECT_FALSE(fs::exists(folder / "best" / kBestFile));
}

TEST(SessionCheckpoint, AnAgentWhoseNumbersAreNotFiniteIsNotLoaded) {
  const TemporaryFolder folder;
  IdleAgent agent;
  const auto before = agent.weight.clone();
  auto weight = before.clone();
  weight[0][1] = std::numeric_limits<double>::quiet_NaN();
  const Checkpoint diverged{.counters = {}, .tensors = {{"agent/weight", weight}}};
  const auto text = message_of([&] { restore_agent(diverged, "run/model.ckpt", agent); });
  EXPECT_TRUE(text.starts_with("run/model.ckpt ")) << text;
  EXPECT_NE(text.find("'weight' holds NaN"), std::string::npos) << text;
  EXPECT_TRUE(agent.weight.equal(before)) << "it keeps its own numbers";
}

TEST(SessionCheckpoint, CheckpointsAndEvaluationsComeEverySoManySteps) {
  const TemporaryFolder folder;
  Config config = SessionParts::config();
  config.checkpoint_steps = 30;
  config.eval_steps = 40;
  config.keep_checkpoints = 100;
  SessionParts p(folder / "run", {.quiet = true}, config);
  p.session.begin(p.agent, p.algo);
  std::vector<std::int64_t> evaluated;
  const ToyRollout rollout;
  while (p.session.running()) {
    const auto progress = p.session.advance(rollout.batch());
    if (p.session.evaluation_is_due()) evaluated.push_back(p.session.steps());
    p.session.report(p.algo.update(rollout.samples, progress), {});
  }
  EXPECT_EQ(evaluated, (std::vector<std::int64_t>{40, 80}));
  int checkpoints = 0;
  for (const auto& entry : fs::directory_iterator(folder / "run"))
    checkpoints += entry.path().filename().string().starts_with("checkpoint-");
  EXPECT_EQ(checkpoints, 3);
}

TEST(SessionCheckpoint, TheBestAgentIsThatOfTheBestEvaluation) {
  const TemporaryFolder folder;
  Config config = SessionParts::config();
  config.checkpoint_steps = 10;
  config.eval_steps = 20;
  SessionParts p(folder / "run", {.quiet = true}, config);
  p.session.begin(p.agent, p.algo);
  const ToyRollout rollout;
  std::vector<std::int64_t> at;
  for (const double eval_return : {-3.0, 5.0, 4.0}) {
    p.session.advance(rollout.batch());
    at.push_back(p.session.steps());
    p.session.report({{kEvalReturn, eval_return}}, {});
  }
  const auto best = read_checkpoint(folder / "run" / kBestFile);
  EXPECT_EQ(best.counters.at("steps"), at[1]);
  EXPECT_EQ(best.tensors.at("return").item<double>(), 5);
}

}  // namespace
}  // namespace shoal
