#include "shoal/runners/session.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <csignal>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>
#include <stdexcept>
#include <thread>
#include <utility>

#include "runners/metric_means.h"
#include "shoal/core/error.h"
#include "shoal/core/finite.h"
#include "shoal/core/stop.h"
#include "shoal/runners/checkpoint.h"
#include "shoal/runners/checkpoint_files.h"
#include "shoal/runners/console_table.h"
#include "shoal/runners/on_policy.h"
#include "shoal/runners/train.h"
#include "tests/runners/temporary_folder.h"
#include "tests/runners/toy_parts.h"
#include "tests/support/message_of.h"

namespace fs = std::filesystem;

namespace shoal {
namespace {

// A rollout of 10 steps in which `ended` episodes with this score ended.
struct Rollout {
  explicit Rollout(double score = 0, int ended = 0)
      : episodes(ended, {.length = 5, .reward = score, .score = score}) {
    samples.T = 5;
    samples.B = 2;
    samples.steps = 10;
  }
  Batch batch() const { return {samples, episodes, infos}; }

  Samples samples;
  std::vector<Episode> episodes;
  std::vector<std::string> infos;
};

struct Parts {
  explicit Parts(const fs::path& folder, const SessionOptions& options = {.quiet = true},
                 const Config& c = config())
      : session(c, folder, options) {}

  static Config config() {
    Config config = preset("cartpole-ppo");
    config.steps = 100;
    config.schedule_steps = 200;
    return config;
  }
  void once(const Rollout& rollout) {
    const auto progress = session.advance(rollout.batch());
    session.report(algo.update(rollout.samples, progress), {});
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

// The last rate of a console output: "steps  10.5k/s" -> 10500.
double speed_in(const std::string& shown) {
  const auto from = shown.rfind("steps  ") + 7;
  std::size_t digits = 0;
  const double number = std::stod(shown.substr(from), &digits);
  const char unit = shown.at(from + digits);
  return number * (unit == 'M' ? 1e6 : unit == 'k' ? 1e3 : 1);
}

class BrokenEnv : public StaircaseEnv {
 public:
  using StaircaseEnv::StaircaseEnv;
  StepResult step(ArraysIn, StepOut) override { throw Error("the wheel came off"); }
};

TEST(Session, LeavesACompleteRunFolder) {
  const TemporaryFolder folder;
  Parts p(folder / "run");
  p.session.begin(p.agent, p.algo);
  int rollouts = 0;
  for (; p.session.running(); ++rollouts) p.once(Rollout(rollouts, 1));
  p.session.finish();
  EXPECT_EQ(rollouts, 10);
  EXPECT_EQ(write_config(read_config(folder / "run/config.toml")), write_config(Parts::config()));

  const auto rows = lines_of(folder / "run/progress.csv");
  ASSERT_EQ(rows.size(), 11U);
  EXPECT_TRUE(rows[0].starts_with("steps,seconds,sps,updates,episodes,return_mean,return_std,"))
      << rows[0];
  EXPECT_TRUE(rows[0].ends_with("share_logging,share_other,remaining")) << rows[0];
  EXPECT_TRUE(rows[10].starts_with("100,")) << rows[10];
  EXPECT_TRUE(rows[10].ends_with(",0.55"))
      << "schedule_steps, not steps, sets the schedule, and 90 were taken before: " << rows[10];

  const auto summary = nlohmann::json::parse(read_file(folder / "run/summary.json"));
  EXPECT_EQ(summary.at("final_return"), 4.5);
  EXPECT_EQ(summary.at("steps"), 100);
  EXPECT_EQ(summary.at("seed"), 1);
  EXPECT_EQ(summary.at("ended_by"), "steps");
  for (const char* key : {"seconds", "sps", "version"}) EXPECT_TRUE(summary.contains(key)) << key;

  const auto checkpoint = read_checkpoint(folder / "run/model.ckpt");
  EXPECT_EQ(checkpoint.counters.at("steps"), 100);
  EXPECT_TRUE(at::equal(checkpoint.tensors.at("agent/weight"), p.agent.weight));
  EXPECT_EQ(checkpoint.tensors.at("algo/step").item<std::int64_t>(), 10);
}

TEST(Session, InfosOfEpisodesAreColumns) {
  const TemporaryFolder folder;
  Parts p(folder / "run");
  p.session.begin(p.agent, p.algo);
  Rollout rollout(0, 2);
  rollout.infos = {"depth", "gold"};
  rollout.episodes[0].info = {1, 10};
  rollout.episodes[1].info = {2, 30};
  p.once(rollout);
  const auto lines = lines_of(folder / "run" / kProgressFile);
  EXPECT_NE(lines.at(0).find(",share_other,info_depth_mean,info_gold_mean"), std::string::npos)
      << lines[0];
  EXPECT_NE(lines.at(1).find(",1.5,20"), std::string::npos) << lines[1];
}

class Collector : public LogSink {
 public:
  explicit Collector(std::vector<LogRow>& rows) : rows_(rows) {}
  void write(const LogRow& row) override { rows_.push_back(row); }

 private:
  std::vector<LogRow>& rows_;
};

TEST(Session, RowsGoToSinksAndSharesOfTimeSumToOne) {
  const TemporaryFolder folder;
  Parts p(folder / "run");
  p.session.begin(p.agent, p.algo);
  std::vector<LogRow> rows;
  p.session.add_sink(std::make_unique<Collector>(rows));
  for (int i = 0; i < 3; ++i) p.once(Rollout(i, 2));
  ASSERT_EQ(rows.size(), 3U);
  for (const auto& row : rows) {
    double shares = 0;
    for (const auto& [name, number] : row.numbers) {
      if (!name.starts_with("share_")) continue;
      shares += number;
      EXPECT_GE(number, 0) << name;
    }
    EXPECT_NEAR(shares, 1, 1e-12);
  }
  EXPECT_EQ(rows[2].steps, 30);
  const auto mean = std::ranges::find(rows[2].numbers, "return_mean", &Metrics::value_type::first);
  EXPECT_EQ(mean->second, 1);
  const auto table = table_of(rows[2]);
  EXPECT_EQ(table.find('\n'), 78U) << table;
  EXPECT_NE(table.find("\nreturn_median                       1    "), std::string::npos) << table;
  const auto shown = table_of({.steps = 5, .numbers = {{"return_mean", std::nan("")}, {"sps", 7}}});
  EXPECT_EQ(shown.find("return_mean"), std::string::npos) << shown;
  EXPECT_NE(shown.find("sps"), std::string::npos) << shown;
}

TEST(Session, CountsTheStepsThatWereTaken) {
  const TemporaryFolder folder;
  Parts p(folder / "run");
  p.session.begin(p.agent, p.algo);
  Rollout rollout;
  rollout.samples.steps = 7;  // of 10: some environments waited
  p.once(rollout);
  EXPECT_EQ(p.session.steps(), 7);
  EXPECT_EQ(p.session.advance(rollout.batch()).steps, 7);
}

TEST(Session, RolloutsMustHaveTheSameInfos) {
  const TemporaryFolder folder;
  Parts p(folder / "run");
  p.session.begin(p.agent, p.algo);
  p.once(Rollout());
  Rollout other;
  other.infos = {"gold"};
  EXPECT_THROW(p.once(other), Error);
}

TEST(Session, StopsAtTheReturnOfAHundredEpisodes) {
  const TemporaryFolder folder;
  Parts p(folder / "run");
  p.session.begin(p.agent, p.algo);
  p.once(Rollout(1000, 99));
  EXPECT_TRUE(p.session.running()) << "99 episodes are too few to judge";
  p.once(Rollout(0, 1));
  EXPECT_FALSE(p.session.running());
  p.once(Rollout(0, 60));
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

TEST(Session, CountersOfACheckpointAreInTheirRange) {
  const TemporaryFolder folder;
  const auto run = folder / "run";
  {
    Parts p(run);
    p.session.begin(p.agent, p.algo);
    p.once(Rollout(0, 1));
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
    const auto said = message_of([&] { Parts(run, {.quiet = true, .resume = true}); });
    EXPECT_NE(said.find(fmt::format("counter '{}' is {}, expected ", name, value)),
              std::string::npos)
        << said;
  }
}

TEST(Session, WeightsToBeginWithAreLookedForBeforeAnythingStarts) {
  const TemporaryFolder folder;
  auto config = Parts::config();
  for (const auto& run : {(folder / "none").string(), std::string(300, 'x')}) {
    config.init_from = run;
    const auto said = message_of([&] { Parts(folder / "run", {.quiet = true}, config); });
    EXPECT_TRUE(said.starts_with("init_from: ")) << said;
    EXPECT_FALSE(fs::exists(folder / "run"));
  }
}

// A sampler whose environments are not saved in time.
class HungSampler : public Sampler {
 public:
  explicit HungSampler(bool saves_late) : saves_late_(saves_late) {}
  Batch collect() override { throw Interrupted(SIGTERM); }
  const SamplerTimes& times() const override { return times_; }
  NamedTensors save(bool) override {
    if (std::exchange(saves_late_, false)) throw Interrupted(SIGTERM);
    return {{"env/0", at::empty({0}, at::kByte)}};
  }

 private:
  bool saves_late_;
  SamplerTimes times_;
};

TEST(Session, EnvironmentsThatWereGivenUpAreNotSaidToBeUnsavable) {
  for (const bool at_the_end : {false, true}) {
    const TemporaryFolder folder;
    HungSampler sampler(at_the_end);
    ::testing::internal::CaptureStdout();
    ::testing::internal::CaptureStderr();
    {
      Parts p(folder / "run", {});
      p.session.begin(p.agent, p.algo, &sampler);
      if (!at_the_end) p.session.give_up_rollout(Interrupted(SIGTERM));
      p.session.finish();
    }
    EXPECT_EQ(::testing::internal::GetCapturedStdout().find("cannot be saved"), std::string::npos);
    const auto errors = ::testing::internal::GetCapturedStderr();
    EXPECT_NE(errors.find("environments"), std::string::npos) << errors;
    EXPECT_NE(errors.find("will begin new episodes"), std::string::npos) << errors;
  }
}

TEST(Session, ARowThatCannotBeWrittenIsAnError) {
  const TemporaryFolder folder;
  Parts p(folder / "run");
  fs::create_symlink("/dev/full", folder / "run/progress.csv");
  p.session.begin(p.agent, p.algo);
  const auto message = message_of([&] { p.once(Rollout()); });
  EXPECT_TRUE(message.ends_with("run/progress.csv: No space left on device")) << message;
}

TEST(Session, ShowsTheSpeedOfTheLastRollout) {
  const TemporaryFolder folder;
  ::testing::internal::CaptureStdout();
  {
    Parts p(folder / "run", {});
    p.session.begin(p.agent, p.algo);
    while (p.session.running()) p.once(Rollout());
  }
  const std::string shown = ::testing::internal::GetCapturedStdout();
  std::istringstream row(lines_of(folder / "run/progress.csv").back());
  std::string steps, seconds, sps;
  for (auto* field : {&steps, &seconds, &sps}) std::getline(row, *field, ',');
  EXPECT_NEAR(speed_in(shown), std::stod(sps), std::stod(sps) / 100) << shown;
}

TEST(RunOnPolicy, AnErrorWhileTrainingIsNoMistakeOfTheUser) {
  const TemporaryFolder folder;
  Parts p(folder / "run");
  const auto make_env = [](const EnvContext&) { return std::make_unique<BrokenEnv>(0); };
  const auto sampler =
      make_sampler(make_env, p.agent, {.kind = SamplerKind::kSerial, .horizon = 1, .envs = 1});
  p.session.begin(p.agent, p.algo);
  try {
    run_on_policy(p.session, *sampler, p.algo);
    ADD_FAILURE() << "nothing was thrown";
  } catch (const Error& e) {
    ADD_FAILURE() << "an Error: " << e.what();
  } catch (const std::runtime_error& e) {
    EXPECT_STREQ(e.what(), "the wheel came off");
  }
}

TEST(Session, WithoutABeginningThereIsNoFolder) {
  const TemporaryFolder folder;
  { const Parts p(folder / "some/run"); }
  EXPECT_FALSE(fs::exists(folder / "some"));
  Config wrong = Parts::config();
  wrong.sampler.envs = 0;
  EXPECT_THROW(Session(wrong, folder / "run", {.quiet = true}), Error);
  EXPECT_FALSE(fs::exists(folder / "run"));
}

TEST(Session, RefusesTheFolderOfAnotherRun) {
  const TemporaryFolder folder;
  Parts p(folder / "run");
  p.session.begin(p.agent, p.algo);
  p.session.finish();
  EXPECT_THROW(Session(Parts::config(), folder / "run", {.quiet = true}), Error);
  EXPECT_TRUE(fs::exists(folder / "run/summary.json"));
}

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
    Parts p(folder);
    p.session.begin(p.agent, p.algo);
    for (; rollout < first; ++rollout) p.once(Rollout(rollout, 60));
    p.session.finish();
    p.once(Rollout(-1, 1));  // a row after the checkpoint, which must be dropped
  }
  Parts p(folder, {.quiet = true, .resume = true});
  p.agent.weight.zero_();
  p.session.begin(p.agent, p.algo);
  EXPECT_EQ(p.agent.weight[1][2].item<float>(), 5);
  EXPECT_EQ(p.algo.step.item<std::int64_t>(), first);
  for (; p.session.running(); ++rollout) p.once(Rollout(rollout, 60));
  p.session.finish();
  return lines_of(folder / "progress.csv");
}

TEST(Session, AResumedRunIsTheOneThatNeverStopped) {
  const TemporaryFolder folder;
  const auto one = rows_of_a_run(folder / "one", 3), other = rows_of_a_run(folder / "other", 7);
  ASSERT_EQ(one.size(), 11U);
  ASSERT_EQ(other.size(), 11U);
  for (std::size_t i = 0; i < one.size(); ++i)
    EXPECT_EQ(without_times(one[i], one[0]), without_times(other[i], one[0]));
}

TEST(Session, ResumesOnlyWhatCanGoOn) {
  const TemporaryFolder folder;
  const SessionOptions resume{.quiet = true, .resume = true};
  EXPECT_THROW(Parts(folder / "none", resume), Error);
  {
    Parts p(folder / "run");
    p.session.begin(p.agent, p.algo);
    const auto in_use = message_of([&] { Parts(folder / "run", resume); });
    EXPECT_NE(in_use.find("in use by another run"), std::string::npos) << in_use;
    while (p.session.running()) p.once(Rollout());
    p.session.finish();
  }
  const auto message = message_of([&] { Parts(folder / "run", resume); });
  EXPECT_NE(message.find("has taken 100 of its 100 steps; give more with --steps, and"),
            std::string::npos)
      << message;
  Config more = Parts::config();
  more.steps = 200;
  Parts p(folder / "run", resume, more);
  p.session.begin(p.agent, p.algo);
  EXPECT_TRUE(p.session.running());
}

TEST(Session, ParametersThatAreNotFiniteAreNotSaved) {
  const TemporaryFolder folder;
  auto config = Parts::config();
  config.checkpoint_steps = 10;
  Parts p(folder / "run", {.quiet = true}, config);
  p.session.begin(p.agent, p.algo);
  p.once(Rollout());
  const auto good = read_file(folder / "run/model.ckpt"),
             rows = read_file(folder / "run/progress.csv");
  p.agent.weight[1][1] = std::numeric_limits<double>::quiet_NaN();
  EXPECT_NE(message_of<DataError>([&] {
              p.once(Rollout());
            }).find("after 20 steps and 2 updates the agent's 'weight' holds NaN"),
            std::string::npos);
  p.agent.weight[1][1] = -std::numeric_limits<double>::infinity();
  EXPECT_NE(message_of<DataError>([&] { p.session.finish(); }).find("'weight' holds -inf"),
            std::string::npos);
  EXPECT_EQ(read_file(folder / "run/model.ckpt"), good);
  EXPECT_EQ(read_file(folder / "run/progress.csv"), rows);
  EXPECT_FALSE(fs::exists(folder / "run/summary.json"));
}

TEST(Session, ParametersThatAreNotFiniteAreFoundInEveryRowAndInTheBestAgent) {
  const TemporaryFolder folder;
  const auto message = [&](const char* name, std::int64_t log_steps, const Metrics& metrics) {
    auto config = Parts::config();
    config.checkpoint_steps = 0;
    config.log_steps = log_steps;
    Parts p(folder / name, {.quiet = true}, config);
    p.session.begin(p.agent, p.algo);
    p.agent.weight[1][1] = std::numeric_limits<double>::quiet_NaN();
    p.session.advance(Rollout().batch());
    return message_of<DataError>([&] { p.session.report(metrics, {}); });
  };
  EXPECT_NE(message("row", 0, {}).find("'weight' holds NaN"), std::string::npos);
  EXPECT_NE(message("best", 1000, {{kEvalReturn, 3.0}}).find("'weight' holds NaN"),
            std::string::npos);
  EXPECT_FALSE(fs::exists(folder / "best" / kBestFile));
}

TEST(Session, AnAgentWhoseNumbersAreNotFiniteIsNotLoaded) {
  const TemporaryFolder folder;
  IdleAgent agent;
  agent.weight[0][1] = std::numeric_limits<double>::quiet_NaN();
  const Checkpoint diverged{.counters = {}, .tensors = {{"agent/weight", agent.weight}}};
  const auto text = message_of([&] { restore_agent(diverged, "run/model.ckpt", agent); });
  EXPECT_TRUE(text.starts_with("run/model.ckpt ")) << text;
  EXPECT_NE(text.find("'weight' holds NaN"), std::string::npos) << text;
}

TEST(Session, ResumesOnlyWithTheAlgorithmAndTheAgentOfTheRun) {
  const TemporaryFolder folder;
  const SessionOptions resume{.quiet = true, .resume = true};
  {
    Parts p(folder / "run");
    p.session.begin(p.agent, p.algo);
    p.once(Rollout());
    p.session.finish();
  }
  auto other = Parts::config();
  other.algo = "a2c";
  const auto algo = message_of([&] { Parts(folder / "run", resume, other); });
  EXPECT_TRUE(algo.starts_with("algo: found 'a2c', but the run in ")) << algo;
  EXPECT_NE(algo.find("was saved by 'ppo'"), std::string::npos) << algo;

  const auto began_with = [&](const char* name) {
    auto changed = read_checkpoint(folder / "run/model.ckpt");
    changed.tensors.add(name, at::ones({2}));
    write_checkpoint(folder / "run/model.ckpt", changed);
    Parts p(folder / "run", resume);
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

TEST(Session, AMemoryMustSeeTheSameRewardsInEvaluations) {
  const TemporaryFolder folder;
  Config config = Parts::config();
  config.env.normalize_reward = true;
  config.model.memory = MemoryKind::kLstm;
  EXPECT_TRUE(message_of([&] {
                Parts(folder / "run", {.quiet = true}, config);
              }).starts_with("env.normalize_reward: found true with a memory"));
  config.model.memory_sees_previous = false;
  EXPECT_NO_THROW(Parts(folder / "run", {.quiet = true}, config));
}

TEST(Session, BeginsWithTheWeightsOfAnother) {
  const TemporaryFolder folder;
  {
    Parts p(folder / "run");
    p.session.begin(p.agent, p.algo);
    p.once(Rollout());
    p.session.finish();
  }
  Config config = Parts::config();
  config.init_from = folder / "run";
  Parts p(folder / "other", {.quiet = true}, config);
  p.agent.weight.zero_();
  p.session.begin(p.agent, p.algo);
  EXPECT_EQ(p.agent.weight[1][2].item<float>(), 5);
  EXPECT_EQ(p.algo.step.item<std::int64_t>(), 0) << "the weights only";
  EXPECT_EQ(p.session.steps(), 0);
}

TEST(Session, CheckpointsAndEvaluationsComeEverySoManySteps) {
  const TemporaryFolder folder;
  Config config = Parts::config();
  config.checkpoint_steps = 30;
  config.eval_steps = 40;
  config.keep_checkpoints = 100;
  Parts p(folder / "run", {.quiet = true}, config);
  p.session.begin(p.agent, p.algo);
  std::vector<std::int64_t> evaluated;
  const Rollout rollout;
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

TEST(Session, TheBestAgentIsThatOfTheBestEvaluation) {
  const TemporaryFolder folder;
  Config config = Parts::config();
  config.checkpoint_steps = 10;
  config.eval_steps = 20;
  Parts p(folder / "run", {.quiet = true}, config);
  p.session.begin(p.agent, p.algo);
  const Rollout rollout;
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

TEST(SignalGuard, TheSameRequestTwiceIsOne) {
  const SignalGuard guard;
  std::raise(SIGTERM);
  std::raise(SIGTERM);
  EXPECT_EQ(guard.caught(), SIGTERM);
}

TEST(SignalGuardDeathTest, ALaterSignalIsImmediate) {
  EXPECT_EXIT(
      {
        const SignalGuard guard;
        std::raise(SIGINT);
        std::this_thread::sleep_for(std::chrono::milliseconds(1100));  // longer than the one second
        std::raise(SIGINT);
      },
      ::testing::ExitedWithCode(130), "");
}

TEST(MetricMeansTest, OfANumberSinceTheStartTheNewestCounts) {
  MetricMeans means;
  for (const double x : {1.0, 2.0, 6.0})
    means.add({{"loss", x}, {"dropped_rollouts", x}, {"replay_ratio", x}});
  EXPECT_EQ(means.means(),
            (Metrics{{"loss", 3.0}, {"dropped_rollouts", 6.0}, {"replay_ratio", 6.0}}));
}

}  // namespace
}  // namespace shoal
