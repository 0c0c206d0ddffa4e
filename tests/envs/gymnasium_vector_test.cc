#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <deque>
#include <memory>
#include <vector>

#include "shoal/envs/check_env.h"
#include "shoal/envs/gymnasium.h"
#include "shoal/envs/random_actions.h"
#include "shoal/envs/registry.h"
#include "src/envs/lanes.h"
#include "tests/envs/env_row.h"
#include "tests/support/message_of.h"

// Vector environments of Gymnasium, and parallel ones of PettingZoo.
namespace shoal {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class GymnasiumVectorTest : public testing::Test {
 protected:
  static void SetUpTestSuite() { setenv("PYTHONPATH", SHOAL_TOY_GYMNASIUM, 1); }
  void SetUp() override {
    if (std::system(SHOAL_PYTHON_PATH " -c 'import gymnasium' 2>/dev/null") != 0)
      GTEST_SKIP() << "no Gymnasium beside LibTorch: pip install gymnasium";
  }
};

EnvFactory vectors(const std::string& name, const std::string& kwargs = "",
                   const std::vector<InfoSpec>& infos = {}) {
  return make_gymnasium("gymnasium:toy_vectors:" + name,
                        {.kwargs = kwargs, .infos = infos, .vector = true});
}

// Some environments of one batch, each with a row of its own.
struct Batch {
  Batch(const EnvFactory& make_env, const std::vector<std::uint64_t>& seeds)
      : lanes(std::make_shared<Lanes>(7, seeds, Stream::kTrain)) {
    for (std::int64_t i = 0; i < lanes->size(); ++i) {
      envs.push_back(make_env({.index = 7 + i, .lanes = lanes}));
      rows.push_back(std::make_unique<Row>(envs.back()->spec()));
    }
    lanes->reset(seeds);
    for (std::size_t i = 0; i < envs.size(); ++i) envs[i]->reset(seeds[i], rows[i]->out());
    for (const auto& [name, action] : lanes->spec().action)
      pointers.push_back(actions.emplace_back(action.array().bytes() * envs.size()).data());
  }
  void step() { lanes->step(ArraysIn(pointers)); }
  // The action of environment i.
  std::span<std::byte> action(std::size_t field, std::size_t i) {
    const auto each = actions[field].size() / envs.size();
    return std::span(actions[field]).subspan(i * each, each);
  }

  std::shared_ptr<Lanes> lanes;
  std::vector<std::unique_ptr<Env>> envs;
  std::vector<std::unique_ptr<Row>> rows;
  std::vector<std::vector<std::byte>> actions;
  std::vector<const std::byte*> pointers;
};

class AutoresetTest : public GymnasiumVectorTest, public testing::WithParamInterface<const char*> {
 protected:
  std::string kwargs(const std::string& more = "") const {
    return fmt::format(R"({{"mode": "{}"{}}})", GetParam(), more);
  }
};

// Spaces of every kind, in episodes of several lengths.
TEST_P(AutoresetTest, TheEnvironmentsAreThoseSteppedOneByOne) {
  const auto make_one = make_gymnasium("gymnasium:toy_gymnasium:Echo-v0");
  const auto make_all = vectors("sync", kwargs());
  const bool waits = std::string(GetParam()) == "NextStep";
  ASSERT_EQ(make_all({})->batch().waits, waits);
  ASSERT_EQ(make_all({})->batch().multiple, 1);
  const std::vector<std::uint64_t> seeds{3, std::uint64_t{1} << 31 | 5, 4};
  Batch batch(make_all, seeds);
  std::vector<std::unique_ptr<Env>> ones;
  std::vector<std::unique_ptr<Row>> rows;
  std::deque<RandomActions> random;
  for (std::size_t i = 0; i < 3; ++i) {
    ones.push_back(make_one({}));
    rows.push_back(std::make_unique<Row>(ones[i]->spec()));
    ones[i]->reset(seeds[i], rows[i]->out());
    random.emplace_back(ones[i]->spec().action, Rng(i));
    ASSERT_EQ(batch.rows[i]->observations, rows[i]->observations);
  }
  for (int t = 0; t < 20; ++t) {
    SCOPED_TRACE(t);
    for (std::size_t i = 0; i < 3; ++i) {
      const auto action = random[i].choose();
      for (std::size_t f = 0; f < batch.actions.size(); ++f) {
        const auto to = batch.action(f, i);
        std::memcpy(to.data(), action.as<std::byte>(f), to.size());
        std::memcpy(rows[i]->actions[f].data(), to.data(), to.size());
      }
    }
    batch.step();
    for (std::size_t i = 0; i < 3; ++i) {
      const auto want = ones[i]->step(rows[i]->action(), rows[i]->out());
      const auto found = batch.envs[i]->step({}, batch.rows[i]->out());
      ASSERT_EQ(found.reward, want.reward);
      ASSERT_EQ(found.terminated, want.terminated);
      ASSERT_EQ(found.truncated, want.truncated);
      ASSERT_EQ(batch.rows[i]->observations, rows[i]->observations);
    }
    if (t % 4 != 3) continue;  // the length of all episodes
    if (waits) {
      for (std::int64_t i = 0; i < 3; ++i) ASSERT_TRUE(batch.lanes->waits(i));
      batch.step();
    }
    for (std::size_t i = 0; i < 3; ++i) {
      ASSERT_FALSE(batch.lanes->waits(static_cast<std::int64_t>(i)));
      ones[i]->reset({}, rows[i]->out());
      batch.envs[i]->reset({}, batch.rows[i]->out());
      ASSERT_EQ(batch.rows[i]->observations, rows[i]->observations);
    }
  }
}

TEST_P(AutoresetTest, MasksAndInfosAreThoseOfTheStep) {
  Batch batch(vectors("sync", kwargs(R"(, "env": "Numbers")"),
                      {{.name = "of/step", .array = {}, .reduce = PerEpisode::kLast},
                       {.name = "early", .array = {}, .reduce = PerEpisode::kLast}}),
              {1, 2});
  ASSERT_TRUE(batch.lanes->spec().action_mask);
  EXPECT_THAT(batch.rows[1]->mask, ElementsAre(0, 1));
  for (int episode = 0; episode < 3; ++episode) {
    for (int step = 1; step <= 3; ++step) {
      batch.step();
      const auto result = batch.envs[1]->step({}, batch.rows[1]->out());
      EXPECT_EQ(result.terminated, step == 3);
      EXPECT_EQ(batch.rows[1]->observed<float>(0)[0], static_cast<float>(step));
      EXPECT_EQ(*reinterpret_cast<const float*>(batch.rows[1]->infos[0].data()),
                static_cast<float>(step));
      EXPECT_EQ(*reinterpret_cast<const float*>(batch.rows[1]->infos[1].data()),
                step < 3 ? static_cast<float>(step) : 0)
          << "not the one of the reset";
      const bool odd = step % 2 == 1;
      EXPECT_THAT(batch.rows[1]->mask, ElementsAre(odd ? 1 : 0, odd ? 0 : 1)) << step;
    }
    if (batch.lanes->waits(1)) batch.step();
    batch.envs[1]->reset({}, batch.rows[1]->out());
    EXPECT_EQ(batch.rows[1]->observed<float>(0)[0], 0);
    EXPECT_THAT(batch.rows[1]->mask, ElementsAre(0, 1));
  }
}

TEST_P(AutoresetTest, AloneItIsAnEnvironment) {
  EXPECT_EQ(check_env(vectors("sync", kwargs()), {.steps = 60}), std::vector<std::string>{});
}

INSTANTIATE_TEST_SUITE_P(Modes, AutoresetTest, testing::Values("SameStep", "NextStep", "Disabled"),
                         [](const auto& test) { return std::string(test.param); });

TEST_F(GymnasiumVectorTest, ASingleSeedIsThatOfTheFirst) {
  Batch batch(vectors("one_seed"), {5, 900});
  EXPECT_EQ(batch.rows[0]->observed<std::int64_t>(6)[0], 5);
  EXPECT_EQ(batch.rows[1]->observed<std::int64_t>(6)[0], 6) << "Gymnasium counts on";
}

TEST_F(GymnasiumVectorTest, AnIdMayHaveNothingElse) {
  EXPECT_EQ(make_env_factory("gymnasium:toy_vectors:OnlyVectors-v0")({})->batch().multiple, 1);
  EXPECT_EQ(make_env_factory("gymnasium:CartPole-v1")({})->batch().multiple, 0);
  EnvOptions options;
  options.gymnasium.vector = true;
  EXPECT_EQ(make_env_factory("gymnasium:CartPole-v1", options)({})->batch().multiple, 1);
  Batch poles(make_env_factory("gymnasium:CartPole-v1", options), {1, 2, 3});
  for (int i = 0; i < 3; ++i) poles.step();
  EXPECT_THAT(message_of<std::exception>([&] { make_env_factory("gymnasium:Taxi-v4", options); }),
              HasSubstr("found no vector_entry_point in the spec of 'Taxi-v4'"));
  EXPECT_THAT(message_of([&] { make_env_factory("CartPole-v1", options); }),
              HasSubstr("gymnasium.vector: found true, but 'CartPole-v1' is no environment"));
}

TEST_F(GymnasiumVectorTest, MistakesAreNamed) {
  EXPECT_THAT(message_of([] { vectors("oddly"); }), HasSubstr("the autoreset_mode 'Sometimes'"));
  const auto few = vectors("too_few");
  EXPECT_THAT(message_of([&] {
                Batch(few, {1, 2, 3});
              }),
              HasSubstr("the vector environment has 2 environments, expected 3"));
  Batch raising(vectors("raises"), {1, 2});
  raising.step(), raising.step();
  EXPECT_THAT(message_of([&] { raising.step(); }), HasSubstr("the third step is a bad one"));
}

// ---- Games ----

class GamesTest : public GymnasiumVectorTest, public testing::WithParamInterface<const char*> {};

TEST_P(GamesTest, AgentsAreEnvironments) {
  const auto make_env = make_gymnasium("pettingzoo:toy_games", {.kwargs = GetParam()});
  const bool unseen = std::string(GetParam()).find("unseen") != std::string::npos;
  Batch batch(make_env, {10, 11, 12, 20, 21, 22});
  EXPECT_EQ(batch.lanes->traits().multiple, 3);
  EXPECT_EQ(batch.rows[4]->observed<double>(0), (std::vector<double>{20, 1, 0}));
  for (int game = 0; game < 3; ++game) {
    for (int step = 1; step <= 4; ++step) {
      for (std::size_t i = 0; i < 6; ++i) {
        const auto choice = static_cast<std::int64_t>(i % 5);  // counted from 1 in Python
        std::memcpy(batch.action(0, i).data(), &choice, sizeof choice);
      }
      batch.step();
      for (std::size_t i = 0; i < 6; ++i) {
        SCOPED_TRACE(fmt::format("game {} step {} environment {}", game, step, i));
        const auto agent = static_cast<int>(i % 3), leaves = agent + 2;
        EXPECT_EQ(batch.lanes->waits(static_cast<std::int64_t>(i)), step >= leaves);
        if (step > leaves) continue;
        const auto result = batch.envs[i]->step({}, batch.rows[i]->out());
        EXPECT_EQ(result.reward, static_cast<float>(i % 5 + 1));
        EXPECT_EQ(result.terminated, step == leaves && agent == 0);
        EXPECT_EQ(result.truncated, step == leaves && agent != 0);
        EXPECT_EQ(batch.rows[i]->observed<double>(0),
                  (std::vector<double>{game > 0 ? -1.0
                                       : i < 3  ? 10.0
                                                : 20.0,
                                       static_cast<double>(agent),
                                       step - (unseen && step == leaves && agent == 0 ? 1.0 : 0)}));
      }
    }
    batch.step();
    for (std::size_t i = 0; i < 6; ++i) {
      EXPECT_FALSE(batch.lanes->waits(static_cast<std::int64_t>(i)));
      batch.envs[i]->reset({}, batch.rows[i]->out());
      EXPECT_EQ(batch.rows[i]->observed<double>(0)[2], 0);
    }
  }
}

// A terminated agent may lack its last observation, and one that has ended may stay in `agents`.
INSTANTIATE_TEST_SUITE_P(Kinds, GamesTest,
                         testing::Values("{}", R"({"unseen": ["ann"]})", R"({"stay": true})"),
                         [](const auto& test) { return fmt::format("Kind{}", test.index); });

// Learning goes on from what a truncated one sees last.
TEST_F(GymnasiumVectorTest, ATruncatedAgentNeedsItsLastObservation) {
  Batch batch(make_gymnasium("pettingzoo:toy_games", {.kwargs = R"({"unseen": ["bob"]})"}),
              {1, 2, 3});
  batch.step(), batch.step();
  EXPECT_THAT(message_of([&] { batch.step(); }), HasSubstr("found no observation of bob"));
}

// Those that ask for the enum of Gymnasium, and hide the attributes of what they wrap.
TEST_F(GymnasiumVectorTest, GamesMayBeWrapped) {
  const auto make_env =
      make_gymnasium("pettingzoo:toy_games", {.wrappers = {"RecordEpisodeStatistics"}});
  EXPECT_EQ(make_env({})->batch().multiple, 3);
  Batch batch(make_env, {1, 2, 3});
  for (int step = 1; step <= 4; ++step) batch.step();
  for (std::int64_t i = 0; i < 3; ++i) EXPECT_TRUE(batch.lanes->waits(i));
}

TEST_F(GymnasiumVectorTest, GamesThatDoNotFitAreRefused) {
  const auto refusal = [](const std::string& module, const std::string& kwargs) {
    return message_of<std::exception>(
        [&] { make_gymnasium("pettingzoo:" + module, {.kwargs = kwargs}); });
  };
  EXPECT_THAT(refusal("toy_games", R"({"apart": true})"),
              HasSubstr("expected equal spaces, because one policy plays every agent"));
  EXPECT_THAT(refusal("toy_games", R"({"late": true})"),
              HasSubstr("ann is absent at the start of a game"));
  EXPECT_THAT(refusal("toy_vectors", ""),
              HasSubstr("the module toy_vectors has no parallel_env()"));
  EXPECT_THAT(refusal("no_such_games", ""), HasSubstr("there is no Python module 'pettingzoo"));
  EXPECT_THAT(message_of([] {
                const auto env = make_gymnasium("pettingzoo:toy_games")({.index = 4});
                env->reset(1, Row(env->spec()).out());
              }),
              HasSubstr("found a batch of 1, expected a multiple of 3"));
}

}  // namespace
}  // namespace shoal
