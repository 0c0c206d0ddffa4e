#include "shoal/samplers/sampler.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "shoal/core/error.h"
#include "shoal/envs/wrappers.h"
#include "tests/samplers/expect_samples.h"
#include "tests/support/toy_agents.h"
#include "tests/support/toy_envs.h"

namespace shoal {
namespace {

using testing::Counter;
using testing::make_counter;
using testing::make_zoo;
using testing::ToyAgent;

TEST(SamplerTest, AnotherSeedGivesAnotherTrajectory) {
  ToyAgent agent(3);
  auto a = make_sampler(make_zoo(), agent, serial(16, 4, 1)),
       b = make_sampler(make_zoo(), agent, serial(16, 4, 2));
  const auto &x = a->collect().samples, &y = b->collect().samples;
  EXPECT_FALSE(at::equal(x.observation[0], y.observation[0]));
  EXPECT_FALSE(at::equal(x.action[0], y.action[0]));
}

TEST(SamplerTest, EvaluationSharesNoSeedWithTraining) {
  ToyAgent agent(3);
  auto options = serial(16, 4);
  auto a = make_sampler(make_zoo(), agent, options);
  options.stream = Stream::kEval;
  auto b = make_sampler(make_zoo(), agent, options);
  EXPECT_FALSE(at::equal(a->collect().samples.observation[0], b->collect().samples.observation[0]));
}

TEST(SamplerTest, RowsContinueAcrossRollouts) {
  ToyAgent agent(2);
  auto sampler = make_sampler(make_counter({.length = 5}), agent, serial(3, 2));
  std::vector<float> step, episode, first;
  for (int i = 0; i < 4; ++i) {
    const auto& s = sampler->collect().samples;
    EXPECT_EQ(s.first_tick, 3 * i);
    for (std::int64_t t = 0; t < 3; ++t) {
      step.push_back(s.observation[0][t][1][0].item<float>() - 1000);
      episode.push_back(s.observation[0][t][1][1].item<float>());
      first.push_back(s.is_first[t][1].item<bool>() ? 1 : 0);
    }
  }
  EXPECT_EQ(step, (std::vector<float>{0, 1, 2, 3, 4, 0, 1, 2, 3, 4, 0, 1}));
  EXPECT_EQ(episode, (std::vector<float>{0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 2, 2}));
  EXPECT_EQ(first, (std::vector<float>{1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0}));
}

// The agent's state before row 0 of a rollout, and its value of row T, for both environments.
struct Seam {
  std::vector<float> initial_state, bootstrap_value;
};

// Episodes have 5 steps, so that rollouts end at every step of an episode. The observation of
// environment b is 1000 b + step + episode; the agent's state is the sum of observations.
void expect_seams(std::int64_t horizon, const std::vector<Seam>& rollouts) {
  ToyAgent agent(2);
  auto sampler = make_sampler(make_counter({.length = 5}), agent, serial(horizon, 2));
  at::Tensor bootstrap;
  for (const auto& expected : rollouts) {
    const auto& s = sampler->collect().samples;
    const auto where = fmt::format(" of the rollout at tick {}", s.first_tick);
    expect_equal(s.initial_state[0], at::tensor(expected.initial_state, at::kFloat),
                 "initial state" + where);
    if (bootstrap.defined())
      expect_equal(s.agent_info.at("value")[0], bootstrap, "value in row 0" + where);
    expect_equal(s.bootstrap_value, at::tensor(expected.bootstrap_value, at::kFloat),
                 "bootstrap value" + where);
    bootstrap = s.bootstrap_value.clone();
  }
}

TEST(SamplerTest, StateAndValueGoOnOverTheSeamsOfOddRollouts) {
  expect_seams(3, {{.initial_state = {0, 0}, .bootstrap_value = {6, 4006}},
                   {.initial_state = {3, 3003}, .bootstrap_value = {3, 2003}},
                   {.initial_state = {1, 1001}, .bootstrap_value = {15, 5015}},
                   {.initial_state = {10, 4010}, .bootstrap_value = {9, 3009}},
                   {.initial_state = {5, 2005}, .bootstrap_value = {3, 1003}}});
}

TEST(SamplerTest, StateAndValueGoOnOverTheSeamsOfEvenRollouts) {
  expect_seams(4, {{.initial_state = {0, 0}, .bootstrap_value = {10, 5010}},
                   {.initial_state = {6, 4006}, .bootstrap_value = {10, 4010}},
                   {.initial_state = {6, 3006}, .bootstrap_value = {9, 3009}},
                   {.initial_state = {5, 2005}, .bootstrap_value = {7, 2007}},
                   {.initial_state = {3, 1003}, .bootstrap_value = {4, 1004}}});
}

TEST(SamplerTest, RewardsFollowActionsAndPreviousOnesAreShifted) {
  ToyAgent agent(2);
  auto sampler = make_sampler(make_counter(), agent, serial(4, 3));
  at::Tensor last_reward, last_action;
  for (int i = 0; i < 3; ++i) {
    const auto& s = sampler->collect().samples;
    expect_equal(s.reward, s.action[0].to(at::kFloat), "reward");
    expect_equal(s.previous_reward.narrow(0, 1, 4), s.reward, "previous reward");
    expect_equal(s.previous_action[0].narrow(0, 1, 4), s.action[0], "previous action");
    if (i > 0) {
      expect_equal(s.previous_reward[0], last_reward, "previous reward over the seam");
      expect_equal(s.previous_action[0][0], last_action, "previous action over the seam");
    }
    last_reward = s.reward[3].clone();
    last_action = s.action[0][3].clone();
  }
}

TEST(SamplerTest, FinalObservationsAreTheTrueLastOnes) {
  ToyAgent agent(2);
  auto sampler = make_sampler(make_counter({.length = 5, .truncates = true}), agent, serial(12, 2));
  const auto batch = sampler->collect();
  const auto& f = batch.samples.final_obs;
  EXPECT_EQ(f.t, (std::vector<std::int64_t>{4, 4, 9, 9}));
  EXPECT_EQ(f.b, (std::vector<std::int64_t>{0, 1, 0, 1}));
  const auto last = f.observation[0].dense();
  EXPECT_EQ(last[3][0].item<float>(), 1005);
  EXPECT_EQ(last[3][1].item<float>(), 1);
  // The state is the sum of the episode's observations; the value adds the final observation.
  const float seen = 1000 + 1001 + 1002 + 1003 + 1004 + 5 * 1;
  EXPECT_EQ(f.state[0][3].item<float>(), seen);
  EXPECT_EQ(f.value[3].item<float>(), seen + 1005 + 1);
  EXPECT_EQ(batch.samples.final_value[9][1].item<float>(), seen + 1005 + 1);
  EXPECT_EQ(batch.samples.final_value.count_nonzero().item<std::int64_t>(), 4);
}

TEST(SamplerTest, BlankFramesOfFinalObservationsStayBlank) {
  ToyAgent agent(2);
  auto sampler = make_sampler(with_stack(make_counter({.length = 2, .truncates = true}), 4), agent,
                              serial(4, 1));
  const auto& f = sampler->collect().samples.final_obs;
  ASSERT_EQ(f.size(), 2);
  for (std::int64_t i = 0; i < 2; ++i) {
    const auto frames = f.observation[0].index[i], numbers = f.observation[0].dense()[i];
    EXPECT_TRUE(at::equal(frames.ge(0).to(at::kInt), at::tensor({0, 1, 1, 1}))) << frames;
    EXPECT_TRUE(at::equal(numbers.select(1, 0), at::tensor({0.0F, 0.0F, 1.0F, 2.0F}))) << numbers;
  }
}

// Its value is a function of the previous action and reward.
class Remembering : public ToyAgent {
 public:
  using ToyAgent::ToyAgent;
  void value(const ActIn& in, at::Tensor& value) override {
    value.copy_(1 + in.previous_action[0] + 10 * in.previous_reward);
  }
};

TEST(SamplerTest, FinalValuesKnowThePreviousActionAndReward) {
  Remembering agent(2);
  auto sampler = make_sampler(make_counter({.length = 3, .truncates = true}), agent, serial(12, 4));
  const auto& s = sampler->collect().samples;
  expect_equal(s.final_value,
               at::where(s.truncated, 1 + s.action[0] + 10 * s.reward, at::zeros({12, 4})),
               "final value");
  EXPECT_GT(s.reward.masked_select(s.truncated).sum().item<float>(), 0);
}

TEST(SamplerTest, TerminatedEpisodesHaveNoFinalValue) {
  ToyAgent agent(2);
  auto sampler = make_sampler(make_counter({.length = 5}), agent, serial(12, 2));
  const auto& s = sampler->collect().samples;
  EXPECT_EQ(s.final_obs.size(), 4);
  EXPECT_EQ(s.final_value.count_nonzero().item<std::int64_t>(), 0);
}

TEST(SamplerTest, ALostLifeIsAnEndForTheAgentOnly) {
  ToyAgent agent(2);
  auto sampler = make_sampler(make_counter({.length = 6, .life = 2}), agent, serial(12, 1));
  const auto batch = sampler->collect();
  const auto& s = batch.samples;
  EXPECT_EQ(s.terminated.sum().item<std::int64_t>(), 6);
  EXPECT_EQ(s.is_first.sum().item<std::int64_t>(), 7);
  ASSERT_EQ(batch.episodes.size(), 2U);
  EXPECT_EQ(batch.episodes[1].length, 6);
  EXPECT_EQ(s.final_obs.size(), 2);
  EXPECT_EQ(s.observation[0][2][0][0].item<float>(), 2);  // not reset
}

TEST(SamplerTest, EpisodesAreCountedWithTheirRawScore) {
  ToyAgent agent(3);
  auto sampler = make_sampler(make_zoo(), agent, serial(64, 2));
  const auto batch = sampler->collect();
  const auto& s = batch.samples;
  ASSERT_GT(batch.episodes.size(), 4U);
  std::vector<double> reward(2, 0), score(2, 0);
  std::vector<std::int64_t> length(2, 0), number(2, 0);
  std::size_t e = 0;
  for (std::int64_t t = 0; t < 64; ++t) {
    for (std::int64_t b = 0; b < 2; ++b) {
      const auto i = static_cast<std::size_t>(b);
      reward[i] += s.reward[t][b].item<float>();
      score[i] += s.env_info[0][t][b].item<float>();
      ++length[i];
      if (!s.is_first[t + 1][b].item<bool>()) continue;
      const auto& episode = batch.episodes[e++];
      EXPECT_EQ(episode.env, b);
      EXPECT_EQ(episode.t, t);
      EXPECT_EQ(episode.number, number[i]++);
      EXPECT_EQ(episode.length, length[i]);
      EXPECT_EQ(episode.reward, reward[i]);
      EXPECT_EQ(episode.score, score[i]);
      reward[i] = score[i] = 0;
      length[i] = 0;
    }
  }
  EXPECT_EQ(e, batch.episodes.size());
}

// Infos of four types, with all reductions; the float64 one has none.
class Informed : public Counter {
 public:
  using Counter::Counter;
  const EnvSpec& spec() const override { return spec_; }
  StepResult step(ArraysIn action, StepOut out) override {
    const auto result = Counter::step(action, out);
    ++step_;
    *out.info.as<float>(0) = static_cast<float>(-step_);  // max: -1
    *out.info.as<std::uint8_t>(1) = step_ % 2 == 1;       // sum: 3 of 5
    *out.info.as<double>(2) = 1e9;
    *out.info.as<std::int64_t>(3) = 100 * episode_ + step_;  // last
    if (result.terminated) step_ = 0, ++episode_;
    return result;
  }

 private:
  EnvSpec spec_{.id = "Informed",
                .observation = ArraySpec{.shape = {2}},
                .action = ActionSpec::discrete(2),
                .info = {{"depth", {}, PerEpisode::kMax},
                         {"odd", {.dtype = DType::kUInt8}, PerEpisode::kSum},
                         {"silent", {.dtype = DType::kFloat64}},
                         {"step", {.dtype = DType::kInt64}, PerEpisode::kLast}}};
  std::int64_t step_ = 0, episode_ = 0;
};

TEST(SamplerTest, InfosAreReducedOverEachEpisode) {
  for (const auto kind :
       {SamplerKind::kSerial, SamplerKind::kParallelCpu, SamplerKind::kParallelGpu}) {
    ToyAgent agent(2);
    auto o = parallel(7, 2, 2);
    o.kind = kind;
    const EnvFactory make = [](const EnvContext& c) {
      return std::make_unique<Informed>(c, testing::CounterOptions{.length = 5});
    };
    auto sampler = make_sampler(make, agent, o);
    std::vector<std::vector<double>> infos;
    for (int rollout = 0; rollout < 3; ++rollout) {
      const auto batch = sampler->collect();
      EXPECT_EQ(batch.infos, (std::vector<std::string>{"depth", "odd", "step"}));
      for (const auto& episode : batch.episodes)
        if (episode.env == 1) infos.push_back(episode.info);
    }
    EXPECT_EQ(infos, (std::vector<std::vector<double>>{
                         {-1, 3, 5}, {-1, 3, 105}, {-1, 3, 205}, {-1, 3, 305}}));
  }
}

// Compares every stack with one rebuilt from a full record of the frames, across rollouts and ends
// of episodes.
TEST(SamplerTest, StacksEqualThoseOfAFullRecord) {
  ToyAgent agent(3);
  auto sampler = make_sampler(make_zoo(), agent, serial(5, 3));
  std::vector<at::Tensor> frames, first;  // per tick: [B, 3, 4], [B]
  for (int rollout = 0; rollout < 8; ++rollout) {
    const auto& s = sampler->collect().samples;
    const auto stacks = s.observed.at("camera").dense().view({6, 3, 3, 3, 4});
    if (rollout > 0)
      frames.pop_back(), first.pop_back();  // row T of the last rollout is row 0 of this one
    for (std::int64_t t = 0; t <= 5; ++t) {
      frames.push_back(s.observation.at("camera")[t].clone());
      first.push_back(s.is_first[t].clone());
      const auto now = static_cast<std::int64_t>(frames.size()) - 1;
      for (std::int64_t b = 0; b < 3; ++b) {
        bool blank = false;
        for (std::int64_t k = 0; k < 3; ++k) {
          const auto at = now - k;
          const auto expected = blank || at < 0 ? at::zeros({3, 4}, at::kByte)
                                                : frames[static_cast<std::size_t>(at)][b];
          expect_equal(stacks[t][b][2 - k], expected,
                       fmt::format("rollout {} t {} b {} k {}", rollout, t, b, k));
          blank = blank || at < 0 || first[static_cast<std::size_t>(at)][b].item<bool>();
        }
      }
    }
  }
}

// Debug builds fill new arenas with a magic value.
TEST(SamplerTest, LeavesNoRowUnwritten) {
  ToyAgent agent(3);
  auto sampler = make_sampler(make_zoo(), agent, parallel(6, 4, 2));
  const auto& s = sampler->collect().samples;
  const std::vector<std::uint8_t> four_bytes(4, std::to_integer<std::uint8_t>(Arena::kMagic));
  const auto magic = at::tensor(four_bytes, at::kByte).view(at::kFloat).item<float>();
  for (const auto* t :
       {&s.reward, &s.previous_reward, &s.observation[1], &s.agent_info[0], &s.env_info[0]})
    EXPECT_FALSE(t->eq(magic).any().item<bool>());
  for (const auto* t : {&s.terminated, &s.truncated, &s.is_first, &s.mask[0]})
    EXPECT_LE(t->view(at::kByte).max().item<int>(), 1);
  EXPECT_LT(s.previous_action[0].max().item<std::int64_t>(), 3);
  EXPECT_GE(s.previous_action[0].min().item<std::int64_t>(), 0);
}

class Described : public testing::Counter {
 public:
  Described(const EnvContext& context, EnvSpec spec)
      : Counter(context, {}), described_(std::move(spec)) {}
  const EnvSpec& spec() const override { return described_; }

 private:
  EnvSpec described_;
};

TEST(SamplerTest, SpecsThatCannotBeServedAreRefused) {
  ToyAgent agent(2);
  const EnvSpec good{
      .id = "Described", .observation = ArraySpec{.shape = {2}}, .action = ActionSpec::discrete(2)};
  auto refusal = [&](const EnvSpec& others, const EnvSpec& first) -> std::string {
    const EnvFactory make = [=](const EnvContext& c) {
      return std::make_unique<Described>(c, c.index == 0 ? first : others);
    };
    try {
      make_sampler(make, agent, serial(2, 3));
    } catch (const Error& e) {
      return e.what();
    }
    return "";
  };
  EXPECT_EQ(refusal(good, good), "");

  auto wider = good;
  wider.observation = ArraySpec{.shape = {3}};
  const auto text = refusal(wider, good);
  for (const char* part : {"environment 1 has the observation", "[3]", "[2]"})
    EXPECT_NE(text.find(part), std::string::npos) << text;

  auto precise = good;
  precise.info = {{"score", ArraySpec{.dtype = DType::kFloat64}, PerEpisode::kSum}};
  EXPECT_NE(refusal(precise, precise).find("float64"), std::string::npos);

  auto vectors = good;
  vectors.info = {{"speed", ArraySpec{.shape = {3}}, PerEpisode::kMax}};
  EXPECT_NE(refusal(vectors, vectors).find("'speed'"), std::string::npos);

  auto masked = good;
  masked.action = ActionSpec::box(2, -1, 1);
  masked.action_mask = true;
  EXPECT_NE(refusal(masked, masked).find("action mask"), std::string::npos);
}

TEST(SamplerTest, ImpossibleOptionsAreRefused) {
  ToyAgent agent(2);
  auto refused = [&](SamplerOptions o, const std::string& word) {
    try {
      make_sampler(make_counter(), agent, o);
      ADD_FAILURE() << "accepted: " << word;
    } catch (const Error& e) {
      EXPECT_NE(std::string(e.what()).find(word), std::string::npos) << e.what();
    }
  };
  refused(serial(0, 1), "horizon");
  refused(serial(1, 0), "envs");
  refused(serial(1, -3), "envs");
  auto backwards = serial(1, 1);
  backwards.decorrelation = -1;
  refused(backwards, "decorrelation");
  refused(parallel(1, 4, 0), "workers");
  refused(parallel(1, 4, 5), "cannot share");
  refused(parallel(1, 4, 2, 0), "groups");
  refused(parallel(1, 4, 2, 3), "groups");
  refused(parallel(1, 1, 1, 2), "groups");
  refused(serial(1'000'000'000'000, 100'000), "memory");
}

}  // namespace
}  // namespace shoal
