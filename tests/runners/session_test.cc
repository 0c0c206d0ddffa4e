#include "shoal/runners/session.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <csignal>
#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>
#include <stdexcept>
#include <thread>
#include <utility>

#include "runners/console_table.h"
#include "runners/metric_means.h"
#include "shoal/core/error.h"
#include "shoal/core/stop.h"
#include "shoal/runners/checkpoint.h"
#include "shoal/runners/checkpoint_files.h"
#include "shoal/runners/on_policy.h"
#include "tests/runners/session_parts.h"
#include "tests/runners/temporary_folder.h"
#include "tests/runners/toy_parts.h"
#include "tests/support/message_of.h"

namespace fs = std::filesystem;

namespace shoal {
namespace {

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
  SessionParts p(folder / "run");
  p.session.begin(p.agent, p.algo);
  int rollouts = 0;
  for (; p.session.running(); ++rollouts) p.once(ToyRollout(rollouts, 1));
  p.session.finish();
  EXPECT_EQ(rollouts, 10);
  EXPECT_EQ(write_config(read_config(folder / "run/config.toml")),
            write_config(SessionParts::config()));

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
  SessionParts p(folder / "run");
  p.session.begin(p.agent, p.algo);
  ToyRollout rollout(0, 2);
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
  SessionParts p(folder / "run");
  p.session.begin(p.agent, p.algo);
  std::vector<LogRow> rows;
  p.session.add_sink(std::make_unique<Collector>(rows));
  for (int i = 0; i < 3; ++i) p.once(ToyRollout(i, 2));
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
  SessionParts p(folder / "run");
  p.session.begin(p.agent, p.algo);
  ToyRollout rollout;
  rollout.samples.steps = 7;  // of 10: some environments waited
  p.once(rollout);
  EXPECT_EQ(p.session.steps(), 7);
  EXPECT_EQ(p.session.advance(rollout.batch()).steps, 7);
}

TEST(Session, RolloutsMustHaveTheSameInfos) {
  const TemporaryFolder folder;
  SessionParts p(folder / "run");
  p.session.begin(p.agent, p.algo);
  p.once(ToyRollout());
  ToyRollout other;
  other.infos = {"gold"};
  EXPECT_THROW(p.once(other), Error);
}

TEST(Session, StopsAtTheReturnOfAHundredEpisodes) {
  const TemporaryFolder folder;
  SessionParts p(folder / "run");
  p.session.begin(p.agent, p.algo);
  p.once(ToyRollout(1000, 99));
  EXPECT_TRUE(p.session.running()) << "99 episodes are too few to judge";
  p.once(ToyRollout(0, 1));
  EXPECT_FALSE(p.session.running());
  p.once(ToyRollout(0, 60));
  EXPECT_TRUE(p.session.running()) << "only the last hundred count";
}

TEST(Session, ASignalStopsItWithACheckpoint) {
  const TemporaryFolder folder;
  SessionParts p(folder / "run");
  p.session.begin(p.agent, p.algo);
  std::raise(SIGTERM);
  EXPECT_FALSE(p.session.running());
  EXPECT_EQ(p.session.stop_signal(), SIGTERM);
  p.session.finish();
  EXPECT_EQ(read_checkpoint(folder / "run/model.ckpt").counters.at("steps"), 0);
  EXPECT_TRUE(
      nlohmann::json::parse(read_file(folder / "run/summary.json")).at("final_return").is_null());
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
      SessionParts p(folder / "run", {});
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
  SessionParts p(folder / "run");
  fs::create_symlink("/dev/full", folder / "run/progress.csv");
  p.session.begin(p.agent, p.algo);
  const auto message = message_of([&] { p.once(ToyRollout()); });
  EXPECT_TRUE(message.ends_with("run/progress.csv: No space left on device")) << message;
}

TEST(Session, ShowsTheSpeedOfTheLastRollout) {
  const TemporaryFolder folder;
  ::testing::internal::CaptureStdout();
  {
    SessionParts p(folder / "run", {});
    p.session.begin(p.agent, p.algo);
    while (p.session.running()) p.once(ToyRollout());
  }
  const std::string shown = ::testing::internal::GetCapturedStdout();
  std::istringstream row(lines_of(folder / "run/progress.csv").back());
  std::string steps, seconds, sps;
  for (auto* field : {&steps, &seconds, &sps}) std::getline(row, *field, ',');
  EXPECT_NEAR(speed_in(shown), std::stod(sps), std::stod(sps) / 100) << shown;
}

TEST(RunOnPolicy, AnErrorWhileTrainingIsNoMistakeOfTheUser) {
  const TemporaryFolder folder;
  SessionParts p(folder / "run");
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
  { const SessionParts p(folder / "some/run"); }
  EXPECT_FALSE(fs::exists(folder / "some"));
  Config wrong = SessionParts::config();
  wrong.sampler.envs = 0;
  EXPECT_THROW(Session(wrong, folder / "run", {.quiet = true}), Error);
  EXPECT_FALSE(fs::exists(folder / "run"));
}

TEST(Session, RefusesTheFolderOfAnotherRun) {
  const TemporaryFolder folder;
  SessionParts p(folder / "run");
  p.session.begin(p.agent, p.algo);
  p.session.finish();
  EXPECT_THROW(Session(SessionParts::config(), folder / "run", {.quiet = true}), Error);
  EXPECT_TRUE(fs::exists(folder / "run/summary.json"));
}

TEST(Session, AMemoryMustSeeTheSameRewardsInEvaluations) {
  const TemporaryFolder folder;
  Config config = SessionParts::config();
  config.env.normalize_reward = true;
  config.model.memory = MemoryKind::kLstm;
  EXPECT_TRUE(message_of([&] {
                SessionParts(folder / "run", {.quiet = true}, config);
              }).starts_with("env.normalize_reward: found true with a memory"));
  config.model.memory_sees_previous = false;
  EXPECT_NO_THROW(SessionParts(folder / "run", {.quiet = true}, config));
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
