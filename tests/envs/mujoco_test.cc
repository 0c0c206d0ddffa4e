#include "shoal/envs/mujoco.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>
#include <vector>

#include "shoal/core/error.h"
#include "shoal/envs/check_env.h"
#include "shoal/envs/registry.h"
#include "src/envs/mujoco/mujoco_env.h"
#include "tests/support/allocations.h"
#include "tests/support/message_of.h"

namespace shoal {
namespace {

using testing::HasSubstr;

const std::vector<std::string> kIds = {"Ant-v5",
                                       "HalfCheetah-v5",
                                       "Hopper-v5",
                                       "Humanoid-v5",
                                       "HumanoidStandup-v5",
                                       "InvertedDoublePendulum-v5",
                                       "InvertedPendulum-v5",
                                       "Pusher-v5",
                                       "Reacher-v5",
                                       "Swimmer-v5",
                                       "Walker2d-v5"};

// The memory of one environment.
class MujocoPlayer {
 public:
  explicit MujocoPlayer(const EnvFactory& make_env, std::uint64_t seed = 0)
      : owner_(make_env({.seed = seed})),
        env(dynamic_cast<MujocoEnv&>(*owner_)),
        observation(static_cast<std::size_t>(env.spec().observation[0].count())),
        infos(env.spec().info.size()),
        action(static_cast<std::size_t>(env.spec().action[0].dims)) {
    for (float& info : infos) info_.push_back(reinterpret_cast<std::byte*>(&info));
  }
  MujocoPlayer(const MujocoPlayer&) = delete;
  MujocoPlayer& operator=(const MujocoPlayer&) = delete;

  void reset(std::optional<std::uint64_t> seed = {}) { env.reset(seed, out()); }
  void start_from(std::span<const double> state) { env.start_from(state, out()); }
  StepResult step() {
    const auto* bytes = reinterpret_cast<const std::byte*>(action.data());
    return env.step(ArraysIn({&bytes, 1}), out());
  }
  // The action varies from step to step.
  StepResult step(int t) {
    for (std::size_t i = 0; i < action.size(); ++i)
      action[i] = static_cast<float>(std::sin(0.7 * t + static_cast<double>(i)) *
                                     env.spec().action[0].high);
    return step();
  }
  std::vector<double> state() const {
    const auto qpos = env.physics().qpos(), qvel = env.physics().qvel();
    std::vector<double> all(qpos.begin(), qpos.end());
    all.insert(all.end(), qvel.begin(), qvel.end());
    return all;
  }

 private:
  StepOut out() {
    observation_ = reinterpret_cast<std::byte*>(observation.data());
    return {.observation = ArraysOut({&observation_, 1}), .info = ArraysOut(info_)};
  }
  std::unique_ptr<Env> owner_;
  std::byte* observation_ = nullptr;
  std::vector<std::byte*> info_;

 public:
  MujocoEnv& env;
  std::vector<float> observation, infos, action;
};

// ---- Equality with Python ----

// Runs a script of tests/envs/mujoco and returns its output.
template <class Item>
std::vector<Item> written_by(const std::string& script, const std::string& words) {
  const std::string command = SHOAL_PYTHON_PATH " " SHOAL_MUJOCO_SCRIPTS "/" + script + " " + words;
  FILE* pipe = popen(command.c_str(), "r");
  std::vector<Item> items;
  std::array<Item, 4096> part{};
  for (std::size_t n = 0; (n = fread(part.data(), sizeof(Item), part.size(), pipe)) > 0;)
    items.insert(items.end(), part.begin(), part.begin() + static_cast<std::ptrdiff_t>(n));
  pclose(pipe);
  return items;
}

// The numbers that Python prints about a task, in order.
class Numbers {
 public:
  explicit Numbers(const std::string& words) : numbers_(written_by<double>("play.py", words)) {}
  bool empty() const { return numbers_.empty(); }
  std::span<const double> next(std::size_t n) {
    require(at_ + n <= numbers_.size(), "Python wrote {} numbers, expected more", numbers_.size());
    at_ += n;
    return std::span(numbers_).subspan(at_ - n, n);
  }
  double next() { return next(1)[0]; }

 private:
  std::vector<double> numbers_;
  std::size_t at_ = 0;
};

// A saved state begins with the generator's key and counter, and the number of steps.
void expect_limit(MujocoPlayer& player, std::int64_t limit) {
  player.reset(1);
  std::vector<std::byte> state;
  ASSERT_TRUE(player.env.save(state));
  const std::int64_t steps = limit - 2;
  std::memcpy(state.data() + 2 * sizeof(std::uint64_t), &steps, sizeof steps);
  ASSERT_TRUE(player.env.load(state));
  EXPECT_FALSE(player.step(0).truncated);
  const StepResult last = player.step(1);
  EXPECT_TRUE(last.truncated);
  EXPECT_FALSE(last.terminated);
}

// Means and deviations over the episodes must agree within five standard errors. The extremes are
// unbounded only for normal distributions.
void expect_starts(MujocoPlayer& player, int episodes, Numbers& python) {
  const std::size_t n = player.state().size();
  const auto means = python.next(n), deviations = python.next(n), lowest = python.next(n),
             highest = python.next(n);
  std::vector<double> sum(n), squares(n), low(n, INFINITY), high(n, -INFINITY);
  for (int episode = 0; episode < episodes; ++episode) {
    player.reset();
    const auto state = player.state();
    for (std::size_t i = 0; i < n; ++i) {
      sum[i] += state[i];
      squares[i] += (state[i] - means[i]) * (state[i] - means[i]);
      low[i] = std::min(low[i], state[i]);
      high[i] = std::max(high[i], state[i]);
    }
  }
  for (std::size_t i = 0; i < n; ++i) {
    SCOPED_TRACE(i);
    const double deviation = deviations[i], chance = deviation / std::sqrt(episodes);
    EXPECT_NEAR(sum[i] / episodes, means[i], 5 * std::sqrt(2.0) * chance);
    EXPECT_NEAR(std::sqrt(squares[i] / episodes), deviation, 5 * chance);
    EXPECT_NEAR(low[i], lowest[i], 1.5 * deviation);
    EXPECT_NEAR(high[i], highest[i], 1.5 * deviation);
  }
}

// Counts of ends.
struct Ends {
  int episodes = 0, terminated = 0, truncated = 0;
};

std::vector<float> rounded(std::span<const double> numbers) {
  return {numbers.begin(), numbers.end()};
}

// Takes the same action from the same state: observations, rewards and infos are equal after
// rounding to float32, states exactly.
void expect_row(MujocoPlayer& player, Numbers& python, Ends& ends) {
  const bool is_reset = python.next() != 0;
  const auto reward = static_cast<float>(python.next());
  const bool terminated = python.next() != 0, truncated = python.next() != 0;
  const auto observation = rounded(python.next(player.observation.size()));
  const auto infos = rounded(python.next(player.infos.size()));
  player.action = rounded(python.next(player.action.size()));
  const auto state = python.next(player.state().size());
  StepResult result;
  if (is_reset)
    player.start_from(state);
  else
    result = player.step();
  ASSERT_EQ(player.state(), std::vector<double>(state.begin(), state.end()));
  ASSERT_EQ(player.observation, observation);
  ASSERT_EQ(player.infos, infos);
  ASSERT_EQ(result.reward, reward);
  ASSERT_EQ(result.terminated, terminated);
  ASSERT_EQ(result.truncated, truncated && !terminated);
  ends.episodes += is_reset;
  ends.terminated += terminated;
  ends.truncated += truncated;
}

class MujocoTest : public testing::TestWithParam<std::string> {};

TEST_P(MujocoTest, IsTheSameAsInPython) {
  constexpr int kEpisodes = 1000;
  const std::string& id = GetParam();
  const bool never_falls = id == "HalfCheetah-v5" || id == "Swimmer-v5" || id == "Reacher-v5" ||
                           id == "Pusher-v5" || id == "HumanoidStandup-v5";
  const int rows = never_falls ? 1100 : 700;
  MujocoPlayer player(make_env_factory(id), 5);
  std::string words = fmt::format("{} {} {}", id, kEpisodes, rows);
  for (const auto& info : player.env.spec().info) words += " " + info.name;
  Numbers python(words);
  if (python.empty())
    GTEST_SKIP() << "no MuJoCo 3.3.7 beside Gymnasium: pip install gymnasium[mujoco] mujoco==3.3.7";

  expect_limit(player, static_cast<std::int64_t>(python.next()));
  expect_starts(player, kEpisodes, python);
  Ends ends;
  for (int row = 0; row < rows && !HasFatalFailure(); ++row) {
    SCOPED_TRACE(row);
    expect_row(player, python, ends);
  }
  EXPECT_EQ(ends.terminated == 0, never_falls);
  EXPECT_TRUE(ends.truncated > 0 || !never_falls);
  EXPECT_GT(ends.episodes, 1);
}

// ---- State ----

TEST_P(MujocoTest, ContinuesFromASavedState) {
  const auto make_env = make_env_factory(GetParam());
  MujocoPlayer a(make_env, 3), b(make_env, 4);
  a.reset();
  b.reset();
  for (int t = 0; t < 7 && !a.step(t).episode_over(); ++t) continue;
  std::vector<std::byte> bytes;
  ASSERT_TRUE(a.env.save(bytes));
  ASSERT_TRUE(b.env.load(bytes));
  for (int t = 7; t < 120; ++t) {
    const StepResult x = a.step(t), y = b.step(t);
    ASSERT_EQ(a.state(), b.state()) << t;
    ASSERT_EQ(a.observation, b.observation) << t;
    ASSERT_EQ(a.infos, b.infos) << t;
    ASSERT_EQ(x.reward, y.reward) << t;
    ASSERT_EQ(x.episode_over(), y.episode_over()) << t;
    if (!x.episode_over()) continue;
    a.reset();
    b.reset();
    ASSERT_EQ(a.observation, b.observation) << t;
  }
  bytes.pop_back();
  EXPECT_THAT(message_of<std::exception>([&] { b.env.load(bytes); }),
              HasSubstr("expected a saved state of"));
}

TEST_P(MujocoTest, NothingIsWrongWithIt) {
  CheckEnvOptions options{.steps = 150};
#ifdef SHOAL_COUNT_ALLOCATIONS
  options.allocations = allocations;
#endif
  EXPECT_EQ(check_env(make_env_factory(GetParam()), options), std::vector<std::string>{});
}

std::string name_of_task(const testing::TestParamInfo<std::string>& test) {
  return test.param.substr(0, test.param.find('-'));
}
INSTANTIATE_TEST_SUITE_P(Tasks, MujocoTest, testing::ValuesIn(kIds), name_of_task);

TEST(MujocoEnvTest, DescribesItself) {
  const auto env = make_env_factory("Humanoid-v5")({});
  const EnvSpec& spec = env->spec();
  EXPECT_EQ(spec.id, "Humanoid-v5");
  EXPECT_EQ(spec.observation[0].dtype, DType::kFloat32);
  EXPECT_EQ(spec.observation[0].shape, std::vector<std::int64_t>{348});
  EXPECT_EQ(spec.action[0].dims, 17);
  EXPECT_FLOAT_EQ(static_cast<float>(spec.action[0].high), 0.4F);
  EXPECT_EQ(spec.fps, 67);
  EXPECT_EQ(mujoco_ids(), kIds);
  const auto known = env_ids();
  for (const auto& id : kIds)
    EXPECT_NE(std::find(known.begin(), known.end(), id), known.end()) << id;
}

// The model is read before the fork, simulations are made after it.
TEST(MujocoEnvTest, ForkedProcessesPlayTheSame) {
  const auto make_env = make_env_factory("Hopper-v5");
  const auto play = [&make_env](int worker) {
    MujocoPlayer player(make_env, 10 + worker);
    player.reset();
    for (int t = 0; t < 20; ++t) player.step(t);
    return player.observation;
  };
  const std::vector<std::vector<float>> expected = {play(0), play(1)};
  ASSERT_NE(expected[0], expected[1]);
  std::vector<pid_t> children;
  for (int worker = 0; worker < 2; ++worker) {
    children.push_back(fork());
    if (children.back() != 0) continue;
    alarm(30);
    _exit(play(worker) == expected[worker] ? 0 : 1);
  }
  for (const pid_t child : children) {
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  }
}

// ---- Pictures ----

// Draws, or returns false on a machine without EGL or a driver for it.
bool draws(Env& env, Image& image) try { return env.render(image); } catch (const Error& error) {
  EXPECT_THAT(error.what(), testing::AnyOf(HasSubstr("libEGL.so.1 cannot be loaded"),
                                           HasSubstr("EGL found no device that draws")));
  return false;
}

// One task has a camera that follows it, the other has none.
TEST(MujocoEnvTest, DrawsWhatMujocosOwnRendererDraws) {
  for (const auto& [id, model] :
       {std::pair{"HalfCheetah-v5", "half_cheetah.xml"}, std::pair{"Reacher-v5", "reacher.xml"}}) {
    MujocoPlayer player(make_env_factory(id), 3);
    player.reset();
    Image image;
    if (!draws(player.env, image)) GTEST_SKIP() << "this machine cannot draw: no EGL, or no driver";
    std::string words = (mujoco_models() / model).string();
    for (const double number : player.env.physics().qpos()) words += fmt::format(" {}", number);
    const auto python = written_by<std::uint8_t>("draw.py", words);
    if (python.empty()) GTEST_SKIP() << "no MuJoCo 3.3.7: pip install mujoco==3.3.7 PyOpenGL";
    EXPECT_EQ(image.height, 480);
    EXPECT_EQ(image.width, 480);
    EXPECT_TRUE(image.rgb == python) << id;
  }
}

TEST(MujocoEnvTest, DrawingChangesOnlyThePicture) {
  const auto make_env = make_env_factory("Hopper-v5");
  MujocoPlayer a(make_env, 3), b(make_env, 3);
  a.reset();
  b.reset();
  Image first, image;
  if (!draws(a.env, first)) GTEST_SKIP() << "this machine cannot draw: no EGL, or no driver";
  for (int t = 0; t < 10; ++t) {
    a.step(t);
    b.step(t);
    ASSERT_TRUE(a.env.render(image));
    ASSERT_EQ(a.state(), b.state()) << t;
  }
  EXPECT_NE(image.rgb, first.rgb);
}

// A driver's threads are missing there: a picture would wait for them for ever.
TEST(MujocoEnvTest, AForkedProcessSaysThatItCannotDrawAfterItsParentHas) {
  const auto make_env = make_env_factory("Reacher-v5");
  MujocoPlayer player(make_env);
  player.reset();
  Image image;
  if (!draws(player.env, image)) GTEST_SKIP() << "this machine cannot draw: no EGL, or no driver";
  const pid_t child = fork();
  if (child == 0) {
    alarm(30);
    bool said = true;
    {
      MujocoPlayer own(make_env);
      own.reset();
      for (MujocoPlayer* each : {&player, &own})
        said = said && message_of<std::exception>([&] {
                         each->env.render(image);
                       }).find("had drawn before it forked this one") != std::string::npos;
    }
    _exit(said ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  EXPECT_TRUE(player.env.render(image)) << "the parent goes on";
}

// ---- Errors ----

TEST(MujocoEnvTest, NamesTheNearestTaskForAnUnknownOne) {
  EXPECT_EQ(message_of<std::exception>([] { make_mujoco("HalfCheeta-v5"); }),
            "unknown MuJoCo task 'HalfCheeta-v5'; did you mean 'HalfCheetah-v5'?");
  EXPECT_THAT(message_of<std::exception>([] { make_env_factory("Hoper-v5"); }),
              HasSubstr("did you mean 'Hopper-v5'"));
}

TEST(MujocoEnvTest, SaysThatModelsAreMissing) {
  setenv("SHOAL_MUJOCO_MODELS", "/nonexistent", 1);
  EXPECT_THAT(message_of<std::exception>([] { make_env_factory("Ant-v5"); }),
              HasSubstr("there is no model '/nonexistent/ant.xml'. Run `make setup`"));
  EXPECT_TRUE(mujoco_ids().empty());
  unsetenv("SHOAL_MUJOCO_MODELS");
}

// An existing file that is not one of Gymnasium's models.
TEST(MujocoEnvTest, SaysWhatIsWrongWithAModel) {
  const std::string folder = testing::TempDir() + "shoal_models_" + std::to_string(getpid());
  ASSERT_EQ(mkdir(folder.c_str(), 0700), 0);
  setenv("SHOAL_MUJOCO_MODELS", folder.c_str(), 1);
  const std::string file = folder + "/reacher.xml";
  for (const auto& [text, message] :
       {std::pair{"<mujoco>", "cannot read the model '"},
        std::pair{"<mujoco><worldbody><body name='fingertip'/></worldbody></mujoco>",
                  "is not Gymnasium's model for Reacher-v5: it has 0 positions, 0 velocities, 0 "
                  "controls and 2 bodies, expected 4, 4, 2 and 5"}}) {
    std::ofstream(file) << text;
    EXPECT_THAT(message_of<std::exception>([] { make_env_factory("Reacher-v5"); }),
                HasSubstr(message));
  }
  unsetenv("SHOAL_MUJOCO_MODELS");
  std::remove(file.c_str());
  std::remove(folder.c_str());
}

// In a new process, because the plugin is loaded once per process.
TEST(MujocoEnvTest, SaysThatThePluginCannotBeLoaded) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_EXIT(
      {
        setenv("SHOAL_MUJOCO_PLUGIN", "/etc/passwd", 1);
        const std::string broken = message_of<std::exception>([] { make_env_factory("Ant-v5"); });
        if (broken.find("cannot load the plugin for MuJoCo: /etc/passwd") != 0) _exit(2);
        setenv("SHOAL_MUJOCO_PLUGIN", "/nonexistent.so", 1);
        const std::string error = message_of<std::exception>([] { make_env_factory("Ant-v5"); });
        const bool named = error.find(
                               "MuJoCo is not available: there is no plugin "
                               "'/nonexistent.so'") != std::string::npos;
        _exit(named && mujoco_ids().empty() ? 0 : 1);
      },
      testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace shoal
