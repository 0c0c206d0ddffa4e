#include "shoal/envs/check_env.h"

#include <gtest/gtest.h>

#include <csignal>
#include <cstdlib>
#include <random>
#include <thread>

#include "shoal/core/error.h"
#include "shoal/core/stop.h"
#include "shoal/envs/classic_control.h"
#include "shoal/envs/wrappers.h"
#include "tests/support/toy_envs.h"

namespace shoal {
namespace {

enum class Mistake {
  kNone,
  kWrongShape,  // writes more elements than the spec has
  kWrongDtype,  // writes float32 instead of float64
  kTooLarge,    // a value above its bound
  kNotANumber,
  kInfinite,   // without bounds
  kUnwritten,  // the second element, sometimes
  kUnwrittenInfo,
  kUnwrittenMask,
  kEmptyMask,
  kSharedState,
  kDeafToSeeds,
  kDeterministic,  // ignores seeds, but every episode is the same: not a mistake
  kRandom,         // randomness not from the seed
  kHalfReset,      // keeps some state across a reset with a seed
  kHalfSaved,
  kAllocates,
  kLifeNotTerminated,
  kInfiniteReward,
  kThrows,
  kCrashes,
  kHangs,
  kBadSpec,
  kCannotBeMade,
  kCrashesAtOnce,
  kHangsAtOnce,
};

int shared_by_all = 0;

// A random walk driven by the seed, with two observation elements, an info and a mask.
class Walk : public Env {
 public:
  explicit Walk(Mistake mistake) : mistake_(mistake) {
    if (is(Mistake::kCrashesAtOnce)) std::abort();
    if (is(Mistake::kHangsAtOnce)) std::this_thread::sleep_for(std::chrono::hours(1));
    if (is(Mistake::kCannotBeMade)) throw std::runtime_error("no such file: map.png");
    if (is(Mistake::kWrongDtype)) spec_.observation[0].dtype = DType::kFloat64;
    if (is(Mistake::kInfinite)) spec_.observation[0].low = -HUGE_VAL;
    if (is(Mistake::kBadSpec)) spec_.action[0].choices = {0};
  }
  const EnvSpec& spec() const override { return spec_; }

  void reset(std::optional<std::uint64_t> seed, StepOut out) override {
    if (seed && !is(Mistake::kDeafToSeeds)) rng_ = Rng(*seed);
    if (is(Mistake::kDeterministic)) rng_ = Rng(7);
    if (!is(Mistake::kHalfReset)) age_ = 0;
    steps_ = 0;
    x_ = 0;
    write(out);
  }
  StepResult step(ArraysIn action, StepOut out) override {
    meet();
    ++age_;
    ++shared_by_all;
    x_ += rng_.uniform(-0.1, 0.1) + 0.01 * static_cast<double>(*action.as<std::int64_t>());
    if (is(Mistake::kRandom)) x_ += std::random_device{}() * 1e-12;
    if (is(Mistake::kSharedState)) x_ += 0.01 * (shared_by_all % 5);
    if (is(Mistake::kHalfReset)) x_ += 1e-3 * static_cast<double>(age_);
    if (is(Mistake::kAllocates)) spare_ = std::make_unique<double>(x_);
    x_ = std::clamp(x_, -1.0, 1.0);
    write(out);
    if (!is(Mistake::kUnwrittenInfo)) *out.info.as<float>() = 1;
    ++steps_;
    return {.reward = is(Mistake::kInfiniteReward) && steps_ == 3 ? INFINITY : 1.0F,
            .terminated = steps_ % 7 == 0,
            .truncated = steps_ % 10 == 0,
            .life_lost = is(Mistake::kLifeNotTerminated) && steps_ == 4};
  }
  bool save(std::vector<std::byte>& bytes) const override {
    const Saved saved{rng_.key(), is(Mistake::kHalfSaved) ? 0 : rng_.counter(), x_, steps_, age_};
    bytes.resize(sizeof saved);
    std::memcpy(bytes.data(), &saved, sizeof saved);
    return true;
  }
  bool load(std::span<const std::byte> bytes) override {
    Saved saved;
    std::memcpy(&saved, bytes.data(), sizeof saved);
    rng_ = Rng(saved.key, saved.counter);
    x_ = saved.x, steps_ = saved.steps, age_ = saved.age;
    return true;
  }

 private:
  struct Saved {
    std::uint64_t key, counter;
    double x;
    std::int64_t steps, age;
  };

  bool is(Mistake mistake) const { return mistake_ == mistake; }
  void meet() const {
    if (steps_ < 5) return;
    if (is(Mistake::kThrows)) throw std::runtime_error("the wheel came off");
    if (is(Mistake::kCrashes)) std::abort();
    if (is(Mistake::kHangs)) std::this_thread::sleep_for(std::chrono::hours(1));
  }
  void write(StepOut out) {
    auto* to = out.observation.as<float>();
    to[0] = is(Mistake::kNotANumber) && steps_ == 3 ? NAN : static_cast<float>(x_);
    if (is(Mistake::kInfinite) && steps_ == 3) to[0] = -HUGE_VALF;
    if (is(Mistake::kTooLarge) && steps_ == 4) to[0] = 1.5F;
    if (!(is(Mistake::kUnwritten) && steps_ == 2)) to[1] = static_cast<float>(steps_) / 10;
    if (is(Mistake::kWrongShape)) to[2] = 0;
    for (int a = 0; a < 3 && !is(Mistake::kUnwrittenMask); ++a)
      out.mask[a] = a != steps_ % 3 && !is(Mistake::kEmptyMask);
  }

  EnvSpec spec_{.id = "Walk",
                .observation = ArraySpec{.shape = {2}, .low = -1, .high = 1},
                .action = ActionSpec::discrete(3),
                .info = {{"one", {}, PerEpisode::kSum}},
                .action_mask = true};
  Mistake mistake_;
  Rng rng_;
  double x_ = 0;
  std::int64_t steps_ = 0, age_ = 0;
  std::unique_ptr<double> spare_;
};

std::int64_t allocations_of_walk = 0;

std::vector<std::string> mistakes_of(Mistake mistake) {
  return check_env([mistake](const EnvContext&) { return std::make_unique<Walk>(mistake); },
                   {.steps = 100,
                    .step_limit = std::chrono::milliseconds(500),
                    .reset_limit = std::chrono::seconds(2),
                    .allocations = [mistake] {
                      return mistake == Mistake::kAllocates ? allocations_of_walk++ : 0;
                    }});
}

struct Case {
  Mistake mistake;
  const char *name, *said;
};
std::ostream& operator<<(std::ostream& out, const Case& c) { return out << c.name; }

const Case kCases[] = {
    {Mistake::kWrongShape, "WrongShape", "the observation: more than its 8 bytes are written"},
    {Mistake::kWrongDtype, "WrongDtype",
     "the observation: element 1 is not written after a reset (row 0); every call must write "
     "every element, in the spec's dtype (float64)"},
    {Mistake::kTooLarge, "TooLarge", "the observation: element 0 is 1.5, outside [-1, 1]"},
    {Mistake::kNotANumber, "NotANumber", "the observation: element 0 is NaN"},
    {Mistake::kInfinite, "Infinite", "the observation: element 0 is -inf"},
    {Mistake::kUnwritten, "Unwritten", "the observation: element 1 is not written after a step"},
    {Mistake::kUnwrittenInfo, "UnwrittenInfo", "info 'one': element 0 is not written"},
    {Mistake::kUnwrittenMask, "UnwrittenMask", "the action mask: element 0 is not written"},
    {Mistake::kEmptyMask, "EmptyMask", "the action mask allows no action"},
    {Mistake::kSharedState, "SharedState", "they share state: the observation differs"},
    {Mistake::kDeafToSeeds, "DeafToSeeds", "seeds 1 and 2 give the same episodes"},
    {Mistake::kRandom, "Random", "the same seed and actions do not give the same episodes"},
    {Mistake::kHalfReset, "HalfReset", "a reset with the seed does not repeat the episode"},
    {Mistake::kHalfSaved, "HalfSaved", "a loaded environment does not continue as the saved one"},
    {Mistake::kAllocates, "Allocates", "step() allocates memory, in "},
    {Mistake::kLifeNotTerminated, "LifeNotTerminated", "life_lost without terminated"},
    {Mistake::kInfiniteReward, "InfiniteReward", "the reward is inf"},
    {Mistake::kThrows, "Throws", "step 5: the wheel came off"},
    {Mistake::kCrashes, "Crashes", "was killed by SIGABRT while stepping"},
    {Mistake::kHangs, "Hangs", "for more than 0.5 s"},
    {Mistake::kBadSpec, "BadSpec", "spec: action '' has 0 choices"},
    {Mistake::kCannotBeMade, "CannotBeMade", "it cannot be constructed: no such file: map.png"},
    {Mistake::kCrashesAtOnce, "CrashesAtOnce", "was killed by SIGABRT while constructing"},
    {Mistake::kHangsAtOnce, "HangsAtOnce",
     "has been constructing environment 0 at step 0 for more than"},
};

class CheckEnvTest : public ::testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(Every, CheckEnvTest, ::testing::ValuesIn(kCases),
                         [](const auto& param) { return param.param.name; });

TEST_P(CheckEnvTest, MistakeIsFoundAndNoOther) {
  const auto said = mistakes_of(GetParam().mistake);
  ASSERT_EQ(said.size(), 1U) << ::testing::PrintToString(said);
  EXPECT_NE(said[0].find(GetParam().said), std::string::npos) << said[0];
}

TEST(CheckEnvTest, FindsNothingWhereNothingIsWrong) {
  EXPECT_EQ(mistakes_of(Mistake::kNone), std::vector<std::string>{});
  for (const auto& make_env :
       {make_cart_pole(), make_acrobot(), make_mountain_car(), make_mountain_car_continuous(),
        make_pendulum(), with_normalized_reward(with_time_limit(make_pendulum(), 30)),
        testing::make_zoo()})
    EXPECT_EQ(check_env(make_env), std::vector<std::string>{}) << make_env({})->spec().id;
}

TEST(CheckEnvTest, ADeterministicEnvironmentIsNoted) {
  std::vector<std::string> notes;
  const auto mistakes =
      check_env([](const EnvContext&) { return std::make_unique<Walk>(Mistake::kDeterministic); },
                {.steps = 50, .note = [&](const std::string& note) { notes.push_back(note); }});
  EXPECT_EQ(mistakes, std::vector<std::string>{});
  ASSERT_EQ(notes.size(), 1U);
  EXPECT_NE(notes[0].find("seeds 1 and 2 give the same episodes: the environment is deterministic"),
            std::string::npos)
      << notes[0];
}

// Sleeps, so that progress is reported.
class Slow : public Walk {
 public:
  Slow() : Walk(Mistake::kNone) {}
  StepResult step(ArraysIn action, StepOut out) override {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    return Walk::step(action, out);
  }
};

TEST(CheckEnvTest, ProgressIsTold) {
  std::vector<CheckEnvProgress> told;
  const auto mistakes =
      check_env([](const EnvContext&) { return std::make_unique<Slow>(); },
                {.steps = 50, .progress = [&](const CheckEnvProgress& p) { told.push_back(p); }});
  EXPECT_EQ(mistakes, std::vector<std::string>{});
  ASSERT_FALSE(told.empty());
  EXPECT_EQ(told.back().trial, told.back().trials) << "the last one sleeps for long enough, too";
  for (const auto& p : told) {
    EXPECT_LE(p.step, p.steps);
    EXPECT_EQ(p.steps, 50);
  }
}

TEST(CheckEnvTest, ARequestToStopEndsTheWait) {
  set_stop_grace(std::chrono::milliseconds(0));
  request_stop(SIGTERM);
  EXPECT_THROW(check_env([](const EnvContext&) { return std::make_unique<Slow>(); }), Interrupted);
  request_stop(0);
  set_stop_grace(kStopGrace);
}

TEST(CheckEnvTest, RefusesNoSteps) {
  EXPECT_THROW(check_env(make_cart_pole(), {.steps = 0}), Error);
}

}  // namespace
}  // namespace shoal
