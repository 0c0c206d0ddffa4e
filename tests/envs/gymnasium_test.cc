#include "shoal/envs/gymnasium.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <sstream>

#include "shoal/core/error.h"
#include "shoal/envs/check_env.h"
#include "shoal/envs/registry.h"
#include "shoal/ipc/worker_group.h"
#include "tests/envs/env_player.h"
#include "tests/envs/env_row.h"
#include "tests/support/message_of.h"

namespace shoal {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Runs SHOAL_PYTHON_PATH with these arguments; returns its exit status, and its output in `text`.
int run_python(const std::string& words, std::string& text) {
  FILE* pipe = popen((std::string(SHOAL_PYTHON_PATH " ") + words).c_str(), "r");
  std::array<char, 4096> part{};
  for (std::size_t n = 0; (n = fread(part.data(), 1, part.size(), pipe)) > 0;)
    text.append(part.data(), n);
  return pclose(pipe);
}

class GymnasiumTest : public testing::Test {
 protected:
  static void SetUpTestSuite() { setenv("PYTHONPATH", SHOAL_TOY_GYMNASIUM, 1); }
  void SetUp() override {
    std::string ignored;
    if (run_python("-c 'import gymnasium' 2>&1", ignored) != 0)
      GTEST_SKIP() << "no Gymnasium beside LibTorch: pip install gymnasium";
  }
};

EnvFactory toy(const std::string& name, const std::string& kwargs = "") {
  return make_gymnasium("gymnasium:toy_gymnasium:" + name + "-v0", {.kwargs = kwargs});
}

// ---- Spaces ----

TEST_F(GymnasiumTest, ASpaceOfSpacesIsAListOfArrays) {
  const auto spec = toy("Echo")({})->spec();
  EXPECT_EQ(spec.id, "gymnasium:toy_gymnasium:Echo-v0");
  EXPECT_EQ(spec.fps, 12);
  EXPECT_FALSE(spec.action_mask);

  struct Want {
    const char* name;
    DType dtype;
    std::vector<std::int64_t> shape;
    double low, high;
  };
  const std::vector<Want> wanted = {// Gymnasium sorts the keys of a Dict
                                    {"image", DType::kUInt8, {2, 1, 3}, 0, 255},
                                    {"nested/bits", DType::kBool, {2, 2}, 0, 1},
                                    {"nested/half", DType::kFloat32, {2}, -10, 10},
                                    {"nested/many", DType::kInt64, {2}, -1, 3},
                                    {"pair/0", DType::kInt64, {}, -1, 998},
                                    {"pair/1", DType::kFloat64, {2, 1}, -kInfinity, kInfinity},
                                    {"seed", DType::kInt64, {}, -1, 2147483648.0}};
  ASSERT_EQ(spec.observation.size(), wanted.size());
  for (const auto& want : wanted) {
    SCOPED_TRACE(want.name);
    const auto& array = spec.observation.at(want.name);
    EXPECT_EQ(array.dtype, want.dtype);
    EXPECT_EQ(array.shape, want.shape);
    EXPECT_EQ(array.low, want.low);
    EXPECT_EQ(array.high, want.high);
  }

  using Kind = ActionSpec::Kind;
  ASSERT_EQ(spec.action.size(), 4u);
  EXPECT_EQ(spec.action.at("one").kind, Kind::kDiscrete);
  EXPECT_EQ(spec.action.at("one").choices, std::vector<std::int64_t>{3});
  EXPECT_EQ(spec.action.at("many").kind, Kind::kMultiDiscrete);
  EXPECT_EQ(spec.action.at("many").choices, (std::vector<std::int64_t>{2, 5}));
  EXPECT_EQ(spec.action.at("pair/0").kind, Kind::kBox);
  EXPECT_EQ(spec.action.at("pair/0").dims, 2);
  EXPECT_EQ(spec.action.at("pair/0").low, -1) << "its numbers have different bounds";
  EXPECT_EQ(spec.action.at("pair/0").high, 1);
  EXPECT_EQ(spec.action.at("pair/1").kind, Kind::kMultiBinary);
  EXPECT_EQ(spec.action.at("pair/1").dims, 4);
}

// An exported policy gives the agent's actions, not the environment's.
TEST_F(GymnasiumTest, WhatActionsStandForIsTold) {
  const auto told = [&](const std::string& name) { return toy(name)({})->spec().notices; };
  EXPECT_THAT(told("Echo"),
              ElementsAre(HasSubstr("action 'one' is 0 to 2, which stand for -1 to 1"),
                          HasSubstr("action 'pair/0' is -1 to 1, which stand for [-2, 0] to "
                                    "[2, 10]")));
  EXPECT_THAT(told("Actions"), IsEmpty());
  EXPECT_THAT(toy("Actions", R"({"low": [-1.7e308, 0], "high": [1.7e308, 1]})")({})->spec().notices,
              ElementsAre(HasSubstr("is without bounds, and clipped to [-inf, 0] to [inf, 1]")));
}

TEST_F(GymnasiumTest, ABoundMayBeDenormal) {
  EXPECT_EQ(toy("Denormal")({})->spec().observation.at("").high, 1e-310);
}

TEST_F(GymnasiumTest, ActionsAndObservationsArriveAsTheyAre) {
  const auto env = toy("Echo")({});
  Row row(env->spec());
  env->reset(std::uint64_t{5} << 31 | 7, row.out());
  EXPECT_EQ(row.observed<std::int64_t>(6), std::vector<std::int64_t>{7}) << "cut to 31 bits";
  EXPECT_EQ(row.observed<std::int64_t>(4), std::vector<std::int64_t>{-1});

  // In the order many, one, pair/0, pair/1.
  row.act<std::int64_t>(0, {1, 4});
  row.act<std::int64_t>(1, {2});
  row.act<float>(2, {-0.5F, 0.5F});
  row.act<std::uint8_t>(3, {1, 0, 0, 1});
  auto result = env->step(row.action(), row.out());
  EXPECT_EQ(result.reward, 1) << "the third action, counted from -1";
  EXPECT_EQ(row.observed<std::uint8_t>(0), (std::vector<std::uint8_t>{1, 1, 1, 1, 1, 1}));
  EXPECT_EQ(row.observed<std::uint8_t>(1), (std::vector<std::uint8_t>{1, 0, 0, 1}));
  EXPECT_EQ(row.observed<float>(2), (std::vector<float>{0.5F, 1}));
  EXPECT_EQ(row.observed<std::int64_t>(3), (std::vector<std::int64_t>{2, 3}));
  EXPECT_EQ(row.observed<std::int64_t>(4), std::vector<std::int64_t>{0});
  EXPECT_EQ(row.observed<double>(5), (std::vector<double>{-1, 7.5}))
      << "from [-1, 1] to [-2, 2] and [0, 10]";

  for (int step = 2; step <= 4; ++step) {
    EXPECT_FALSE(result.truncated);
    result = env->step(row.action(), row.out());
  }
  EXPECT_TRUE(result.truncated);
  EXPECT_FALSE(result.terminated);
  EXPECT_EQ(row.observed<std::int64_t>(4), std::vector<std::int64_t>{3}) << "the final one";
  env->reset({}, row.out());
  EXPECT_EQ(row.observed<std::int64_t>(6), std::vector<std::int64_t>{-1}) << "without a seed";
}

TEST_F(GymnasiumTest, ActionsAreOfTheirSpace) {
  const auto small = toy("Actions")({});
  Row row(small->spec());
  small->reset(1, row.out());
  row.act<std::int64_t>(0, {2});
  EXPECT_EQ(small->step(row.action(), row.out()).reward, 1) << "a Discrete of int32";

  // The largest number is no bound.
  for (const char* bounds : {R"({"low": [-1.7e308, 0], "high": [1.7e308, 1]})",
                             R"({"low": [-3.4e38, -3.4e38], "high": [3.4e38, 3.4e38]})"}) {
    const auto box = toy("Actions", bounds)({});
    EXPECT_EQ(box->spec().action[0].low, -kInfinity);
    EXPECT_EQ(box->spec().action[0].high, kInfinity);
    Row numbers(box->spec());
    box->reset(1, numbers.out());
    numbers.act<float>(0, {7, 7});
    EXPECT_EQ(box->step(numbers.action(), numbers.out()).reward, 1);
  }
}

TEST_F(GymnasiumTest, AMaskIsReadFromTheInfo) {
  const auto env = toy("Masked")({});
  ASSERT_TRUE(env->spec().action_mask);
  Row row(env->spec());
  env->reset(1, row.out());
  EXPECT_EQ(row.mask, (std::vector<std::uint8_t>{1, 0}));
  row.act<std::int64_t>(0, {0});
  env->step(row.action(), row.out());
  EXPECT_EQ(row.mask, (std::vector<std::uint8_t>{0, 1}));
}

TEST_F(GymnasiumTest, AMaskComesWithEveryStep) {
  for (const auto& [kwargs, message] : std::vector<std::pair<std::string, std::string>>{
           {R"({"later": {}})", "info has no \"action_mask\", which the first reset() gave"},
           {R"({"later": {"action_mask": [1, 1, 1]}})",
            "info[\"action_mask\"] has 3 elements, the action space has 2 actions"}}) {
    const auto env = toy("Masked", kwargs)({});
    Row row(env->spec());
    env->reset(1, row.out());
    row.act<std::int64_t>(0, {0});
    env->step(row.action(), row.out());
    row.act<std::int64_t>(0, {1});
    const auto text = message_of<std::exception>([&] { env->step(row.action(), row.out()); });
    EXPECT_THAT(text, HasSubstr(message));
    EXPECT_THAT(text, testing::Not(HasSubstr("Traceback")));
  }
}

TEST_F(GymnasiumTest, AnInfoMustOccurInTheFirstEpisodeOfTraining) {
  const auto make = make_gymnasium("gymnasium:toy_gymnasium:Lucky-v0",
                                   {.infos = {InfoSpec{.name = "luck", .array = {}}}});
  const auto step = [](Env& env) {
    Row row(env.spec());
    env.step(row.action(), row.out());
  };
  const auto begin = [&](Stream stream, std::uint64_t seed) {
    auto env = make({.stream = stream});
    env->reset(seed, Row(env->spec()).out());
    step(*env);
    return env;
  };
  constexpr std::uint64_t kLucky = 2, kUnlucky = 1;
  EXPECT_THAT(message_of<std::exception>([&] { step(*begin(Stream::kTrain, kUnlucky)); }),
              HasSubstr("no step of the first episode has an info 'luck'"));
  EXPECT_NO_THROW(step(*begin(Stream::kEval, kUnlucky)));

  const auto env = begin(Stream::kTrain, kLucky);
  std::vector<std::byte> state;
  ASSERT_TRUE(env->save(state));
  EXPECT_NO_THROW(step(*env));
  const auto resumed = make({});
  ASSERT_TRUE(resumed->load(state));
  EXPECT_NO_THROW(step(*resumed));
}

TEST_F(GymnasiumTest, TheNameOfAnInfoIsAKeyOrAPath) {
  const auto env = make_gymnasium("gymnasium:toy_gymnasium:Slashes-v0",
                                  {.infos = {InfoSpec{.name = "r/fwd", .array = {}},
                                             InfoSpec{.name = "r/side", .array = {}}}})({});
  Row row(env->spec());
  env->reset(1, row.out());
  env->step(row.action(), row.out());
  EXPECT_EQ(*reinterpret_cast<const float*>(row.infos[0].data()), 3);
  EXPECT_EQ(*reinterpret_cast<const float*>(row.infos[1].data()), 5);
}

TEST_F(GymnasiumTest, KeywordArgumentsAreGivenOn) {
  const auto env = toy("Echo", R"({"length": 1})")({});
  Row row(env->spec());
  env->reset(1, row.out());
  EXPECT_TRUE(env->step(row.action(), row.out()).truncated);
  EXPECT_THAT(message_of<std::exception>([] { toy("Echo", "[1]"); }),
              HasSubstr("expected a JSON object"));
  EXPECT_THAT(message_of<std::exception>([] { toy("Echo", "{length: 1}"); }),
              HasSubstr("are '{length: 1}', expected a JSON object"));
}

TEST_F(GymnasiumTest, APictureIsWhatRenderGives) {
  const auto env = toy("Echo")({});
  Row row(env->spec());
  env->reset(1, row.out());
  Image image;
  ASSERT_TRUE(env->render(image));
  EXPECT_EQ(image.height, 2);
  EXPECT_EQ(image.width, 3);
  ASSERT_EQ(image.rgb.size(), 18u);
  EXPECT_EQ(image.rgb[17], 17);
  EXPECT_FALSE(toy("Masked")({})->render(image)) << "it has no such mode";
}

// ---- Equality with Python ----

class PlayedInPythonTest : public GymnasiumTest, public testing::WithParamInterface<const char*> {};

TEST_P(PlayedInPythonTest, TheSameSeedAndActionsLeadToTheSame) {
  constexpr int kSteps = 700;
  std::string text;
  ASSERT_EQ(run_python(fmt::format("{}/play.py {} 123 {}", SHOAL_TOY_GYMNASIUM, GetParam(), kSteps),
                       text),
            0);
  std::istringstream lines(text);
  const auto env = make_env_factory(std::string("gymnasium:") + GetParam())({});
  const auto& action = env->spec().action[0];
  const auto& array = env->spec().observation[0];
  Row row(env->spec());
  OracleActions random;
  StepResult result;
  bool over = true;
  for (int step = 0; step <= kSteps; ++step) {
    SCOPED_TRACE(step);
    if (over) {
      env->reset(step == 0 ? std::optional<std::uint64_t>(123) : std::nullopt, row.out());
      result = {};
    } else {
      if (action.kind == ActionSpec::Kind::kDiscrete)
        row.act<std::int64_t>(0, {random.next(action.choices[0])});
      else
        row.act<float>(0, {static_cast<float>(static_cast<double>(random.next(5) - 2) / 2)});
      result = env->step(row.action(), row.out());
    }
    over = result.episode_over();
    std::string line;
    ASSERT_TRUE(std::getline(lines, line));
    std::istringstream words(line);
    double reward = 0, number = 0;
    bool terminated = false, truncated = false;
    words >> reward >> terminated >> truncated;
    ASSERT_EQ(result.reward, static_cast<float>(reward));
    ASSERT_EQ(result.terminated, terminated);
    ASSERT_EQ(result.truncated, truncated);
    for (std::int64_t i = 0; i < array.count(); ++i) {
      ASSERT_TRUE(words >> number);
      const auto* at =
          row.observations[0].data() + static_cast<std::size_t>(i) * size_of(array.dtype);
      ASSERT_EQ(number_at(at, array.dtype), number);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Envs, PlayedInPythonTest,
                         testing::Values("CartPole-v1", "Pendulum-v1", "MountainCarContinuous-v0",
                                         "FrozenLake-v1", "Taxi-v4"),
                         [](const auto& test) {
                           const std::string id = test.param;
                           return id.substr(0, id.find('-'));
                         });

// ---- State ----

TEST_F(GymnasiumTest, CheckEnvTellsOfMistakesThatAreOnesInPython) {
  std::int64_t asked = 0;
  std::vector<std::string> notes;
  const CheckEnvOptions options{.steps = 50,
                                .allocations = [&] { return asked++; },
                                .note = [&](const std::string& note) { notes.push_back(note); }};
  EXPECT_EQ(check_env(toy("Fixed"), options), std::vector<std::string>{});
  EXPECT_THAT(notes, testing::ElementsAre(HasSubstr("the environment is deterministic")));
  const auto mistakes =
      check_env(toy("Returns", R"({"dtype": "int64", "values": [1, -1]})"), options);
  EXPECT_THAT(mistakes, testing::ElementsAre(HasSubstr("the number -1, expected uint8")));
}

TEST_F(GymnasiumTest, TheNearestNameMayBeOneOfPython) {
  EXPECT_EQ(message_of([] { make_env_factory("CliffWalking-v1"); }),
            "unknown environment 'CliffWalking-v1'; did you mean 'gymnasium:CliffWalking-v1'?");
  EXPECT_THAT(message_of([] { make_env_factory("CartPole-v0"); }), HasSubstr("mean 'CartPole-v1'"))
      << "Gymnasium has that one, and this program has a newer one";
}

TEST_F(GymnasiumTest, AMissingPackageIsNamedWithItsInstallation) {
  EXPECT_THAT(message_of([] { make_env_factory("gymnasium:nopackage:Task-v0")({}); }),
              AllOf(HasSubstr("no Python module 'nopackage'"), HasSubstr("-m pip install")));
  EXPECT_THAT(message_of([] { make_env_factory("gymnasium:fast-walk-v0")({}); }),
              HasSubstr("gymnasium:PACKAGE:fast-walk-v0"));
}

// check_env covers seeds, resets, several environments in one process, and a saved and loaded
// state.
TEST_F(GymnasiumTest, NothingIsWrongWithTheBridge) {
  for (const auto* id : {"gymnasium:CartPole-v1", "gymnasium:Taxi-v4"})
    EXPECT_EQ(check_env(make_env_factory(id), {.steps = 300}), std::vector<std::string>{}) << id;
}

TEST_F(GymnasiumTest, AStateGoesOnInAnotherProcess) {
  const auto env = make_env_factory("gymnasium:Pendulum-v1")({});
  Row row(env->spec()), other_row(env->spec());
  env->reset(3, row.out());
  row.act<float>(0, {0.5F});
  env->step(row.action(), row.out());
  std::vector<std::byte> state;
  ASSERT_TRUE(env->save(state));
  env->step(row.action(), row.out());

  const auto other = make_env_factory("gymnasium:Pendulum-v1")({});
  ASSERT_TRUE(other->load(state));
  other_row.act<float>(0, {0.5F});
  other->step(other_row.action(), other_row.out());
  EXPECT_EQ(other_row.observations, row.observations);
}

// Unpickling would silently construct it anew.
TEST_F(GymnasiumTest, AnEzPickleOffersNoState) {
  for (const auto* name : {"MadeAnew", "HoldsAnew"}) {
    SCOPED_TRACE(name);
    const auto env = toy(name)({});
    Row row(env->spec());
    std::vector<std::byte> state;
    EXPECT_FALSE(env->save(state)) << "not even made";
    env->reset(1, row.out());
    EXPECT_FALSE(env->save(state));
  }
}

TEST_F(GymnasiumTest, AForkedProcessGoesOnWithItsEnvironmentsAndMakesNewOnes) {
  const auto env = toy("Echo")({});
  Row row(env->spec());
  env->reset(1, row.out());
  for (int i = 0; i < 2; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      alarm(30);
      env->step(row.action(), row.out());
      const bool went_on = row.observed<std::int64_t>(4)[0] == 0;
      const auto fresh = toy("Echo")({});
      fresh->reset(9, row.out());
      _exit(went_on && row.observed<std::int64_t>(6)[0] == 9 ? 0 : 1);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status)) << status;
    EXPECT_EQ(WEXITSTATUS(status), 0);
  }
  env->step(row.action(), row.out());
  EXPECT_EQ(row.observed<std::int64_t>(4)[0], 0);
}

// ---- Errors ----

TEST_F(GymnasiumTest, AnExceptionComesWithItsTraceback) {
  const auto env = toy("Raises")({});
  Row row(env->spec());
  env->reset(1, row.out());
  env->step(row.action(), row.out());
  env->step(row.action(), row.out());
  const auto text = message_of<std::exception>([&] { env->step(row.action(), row.out()); });
  EXPECT_THAT(text, HasSubstr("gymnasium:toy_gymnasium:Raises-v0: Traceback (most recent call"));
  EXPECT_THAT(text, HasSubstr("toy_gymnasium.py\", line "));
  EXPECT_TRUE(text.ends_with("ValueError: the third step is a bad one")) << text;

  const auto from_worker = message_of<std::exception>([&] {
    Row one(env->spec());
    WorkerGroup group(1, [&](int, WorkerStatus status) {
      const auto own = toy("Raises")({});
      own->reset(1, one.out());
      status.enter(WorkerStatus::kStepping, 4, 2);
      for (int i = 0; i < 3; ++i) own->step(one.action(), one.out());
    });
    for (;;) group.check();
  });
  EXPECT_THAT(from_worker, HasSubstr("stepping environment 4 at step 2"));
  EXPECT_THAT(from_worker, HasSubstr("toy_gymnasium.py\", line "));
  EXPECT_TRUE(from_worker.ends_with("ValueError: the third step is a bad one")) << from_worker;
}

TEST_F(GymnasiumTest, WhatCannotBeMadeIsTold) {
  EXPECT_THAT(message_of<std::exception>([] { toy("CannotBeMade"); }),
              HasSubstr("FileNotFoundError: no map.png"));
  EXPECT_THAT(message_of<std::exception>([] { toy("Crashes"); }),
              HasSubstr("was killed by SIGABRT"));
  EXPECT_THAT(message_of<std::exception>([] { toy("TwoNames"); }),
              HasSubstr("TwoNames-v0: found two parts 'a/b' of a space, expected one"));
  EXPECT_THAT(message_of<std::exception>([] { toy("Nameless"); }),
              HasSubstr("a Dict has the key ' a\\nb', expected a name of one line"));
  EXPECT_THAT(message_of<std::exception>([] { toy("Actions", R"({"low": [], "high": []})"); }),
              HasSubstr("the action is a Box([], [], (0,), float64) without numbers"));
  EXPECT_THAT(message_of<std::exception>([] { toy("Words"); }),
              HasSubstr("the space 'word' is a Text"));
  const auto unknown = message_of<std::exception>([] { make_env_factory("gymnasium:CartPol-v1"); });
  EXPECT_THAT(unknown, HasSubstr("Did you mean: `CartPole`"));
  EXPECT_EQ(unknown.find("Traceback"), std::string::npos);
  EXPECT_THAT(message_of<std::exception>([] { make_gymnasium("gymnasium:"); }),
              HasSubstr("expected gymnasium:ID"));
  EXPECT_THAT(message_of<std::exception>([] { make_env_factory("gymnasium:no_such_module:X-v0"); }),
              HasSubstr("no Python module 'no_such_module'"));
}

TEST_F(GymnasiumTest, AnObservationMustHaveTheFormOfItsSpace) {
  for (const auto& [name, message] :
       {std::pair{"WrongShape", "has the shape (1, 2), expected (1) as in its space"},
        std::pair{"OldApi", "step() returned 4 values"}}) {
    const auto env = toy(name)({});
    Row row(env->spec());
    env->reset(1, row.out());
    EXPECT_THAT(message_of<std::exception>([&] { env->step(row.action(), row.out()); }),
                HasSubstr(message));
  }
}

// The error message of the first step, or its observation.
std::string step_of(const std::string& name, const std::string& kwargs) {
  const auto env = toy(name, kwargs)({});
  Row row(env->spec());
  env->reset(1, row.out());
  try {
    env->step(row.action(), row.out());
  } catch (const Error& e) {
    return e.what();
  }
  std::string numbers;
  const auto& array = env->spec().observation[0];
  for (std::size_t at = 0; at < row.observations[0].size(); at += size_of(array.dtype))
    numbers += fmt::format("{} ", number_at(row.observations[0].data() + at, array.dtype));
  return numbers;
}

TEST_F(GymnasiumTest, WhatIsNotOfTheSpacesTypeIsRefused) {
  for (const auto& [kwargs, message] : std::vector<std::pair<std::string, std::string>>{
           {R"({"dtype": "float32", "values": [1, 2.5]})",
            "the observation is an array of float32 with the shape (2,), [1.  2.5], expected "
            "numbers of uint8"},
           {R"({"dtype": "float64", "values": [1, NaN]})", "[ 1. nan], expected numbers of uint8"},
           {R"({"values": [1.0, 2.0]})",
            "float64 with the shape (2,), [1. 2.], expected numbers of uint8"},
           {R"({"dtype": "int64", "values": [1, -1]})",
            "the observation has the number -1, expected uint8, from 0 to 255"},
           {R"({"dtype": "int64", "values": [256, 1]})", "the number 256, expected uint8"},
           {R"({"values": ["a", "b"]})", "expected numbers of uint8"},
           {R"({"space": "bits", "dtype": "int8", "values": [1, 2]})",
            "the observation has the number 2, expected bool, from 0 to 1"},
           {R"({"values": [[1], [1, 2]]})", "of type list, [[1], [1, 2]], expected an array"},
           {R"({"space": "int8", "dtype": "int32", "values": [1, 128]})",
            "the number 128, expected int8, from -128 to 127"},
           {R"({"space": "float32", "dtype": "int64", "values": [1, 16777217]})",
            "the number 16777217, which float32 cannot represent"},
           {R"({"space": "float32", "dtype": "float64", "values": [1e39, 1]})",
            "the number 1e+39, which float32 cannot represent"},
           {R"({"space": "float32", "values": ["a", "b"]})", "expected numbers of float32"}}) {
    SCOPED_TRACE(kwargs);
    const auto text = step_of("Returns", kwargs);
    EXPECT_THAT(text, HasSubstr(message));
    EXPECT_TRUE(text.starts_with("gymnasium:toy_gymnasium:Returns-v0: the observation ")) << text;
    EXPECT_THAT(text, testing::Not(HasSubstr("Traceback")));
  }
}

TEST_F(GymnasiumTest, WhatConvertsWithoutLossIsAccepted) {
  for (const auto& [kwargs, numbers] : std::vector<std::pair<std::string, std::string>>{
           {R"({"dtype": "int64", "values": [0, 255]})", "0 255 "},
           {R"({"dtype": "bool", "values": [0, 1]})", "0 1 "},
           {R"({"values": [7, 8]})", "7 8 "},
           {R"({"space": "int8", "dtype": "int8", "values": [7, 8]})", "7 8 "},
           {R"({"space": "float32", "dtype": "float64", "values": [0.1, Infinity]})",
            "0.10000000149011612 inf "},
           {R"({"space": "float32", "dtype": "int64", "values": [3, 4]})", "3 4 "}})
    EXPECT_EQ(step_of("Returns", kwargs), numbers) << kwargs;
  EXPECT_EQ(step_of("Choice", R"({"value": 4})"), "4 ");
}

TEST_F(GymnasiumTest, FlagsMayBeTheNumbers0And1) {
  const auto env = toy("Flags")({});
  Row row(env->spec());
  env->reset(1, row.out());
  for (const bool terminated : {false, true, false, true, false, true})
    EXPECT_EQ(env->step(row.action(), row.out()).terminated, terminated);
}

TEST_F(GymnasiumTest, NumPyIsImportedOnce) {
  const auto env = toy("CountsImports")({});
  Row row(env->spec());
  env->reset(1, row.out());
  for (int t = 0; t < 3; ++t) env->step(row.action(), row.out());
  EXPECT_EQ(number_at(row.observations[0].data(), DType::kFloat32), 0);
}

TEST_F(GymnasiumTest, WhatStepReturnsIsOfItsType) {
  for (const auto& [name, kwargs, message] : std::vector<std::array<std::string, 3>>{
           {"Returns", R"({"reward": [1.5]})",
            "the reward is an array of float64 with the shape (1,), [1.5], expected a number"},
           {"Returns", R"({"reward": "1"})", "the reward is of type str, 1, expected a number"},
           {"Returns", R"({"reward": null})", "the reward is None, expected a number"},
           {"Returns", R"({"terminated": 2})",
            "terminated is of type int, 2, expected True or False (or 1 or 0)"},
           {"Returns", R"({"terminated": 1.0})",
            "terminated is of type float, 1.0, expected True or False"},
           {"Returns", R"({"terminated": [1]})",
            "terminated is of type list, [1], expected True or False"},
           {"Returns", R"({"terminated": 1000000000000000000000})", "expected True or False"},
           {"Returns", R"({"terminated": null})", "terminated is None, expected True or False"},
           {"Choice", R"({"value": 1.5})",
            "the observation is of type float, 1.5, expected a whole number"},
           {"Choice", R"({"value": 100000000000000000000})", "expected a whole number of 64 bits"},
           {"Missing", "{}",
            "the observation 'right' is missing: 'right' was looked up in a dict with the keys "
            "['left', 'up']"}}) {
    const auto text = step_of(name, kwargs);
    EXPECT_EQ(text.find("gymnasium:toy_gymnasium:" + name + "-v0: "), 0U) << text;
    EXPECT_THAT(text, HasSubstr(message));
    EXPECT_THAT(text, testing::Not(HasSubstr("Traceback")));
  }
  EXPECT_THAT(message_of<std::exception>([] { toy("ResetAlone"); }),
              HasSubstr("reset() returned an array of float32 with the shape (1,), [0.], expected "
                        "observation and info"));
  EXPECT_THAT(message_of<std::exception>([] { toy("ResetWithoutInfo"); }),
              HasSubstr("reset() returned an info None, expected a dict behind the observation"));
}

// The rows were laid out for the first spaces.
TEST_F(GymnasiumTest, SpacesMustStayTheSame) {
  const std::string file = testing::TempDir() + "shoal_shrinks_" + std::to_string(getpid());
  const auto env = toy("Shrinks", R"({"file": ")" + file + "\"}")({});
  Row row(env->spec());
  EXPECT_THAT(message_of<std::exception>([&] { env->reset(1, row.out()); }),
              HasSubstr("its spaces differ from those that were read first"));
  std::remove(file.c_str());
}

// Or an interpreter runs already, if all tests share a process.
TEST_F(GymnasiumTest, AnInterpreterWithoutGymnasiumIsNamed) {
  const auto text = message_of<std::exception>(
      [] { make_gymnasium("gymnasium:CartPole-v1", {.python = "/nonexistent/bin/python"}); });
  EXPECT_THAT(text, HasSubstr("/nonexistent/bin/python"));
}

}  // namespace
}  // namespace shoal
