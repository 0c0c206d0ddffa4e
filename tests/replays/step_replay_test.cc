#include "shoal/replays/step_replay.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cmath>
#include <deque>
#include <map>
#include <vector>

#include "shoal/core/error.h"
#include "src/replays/step_store.h"
#include "tests/replays/history.h"
#include "tests/support/message_of.h"

namespace shoal {
namespace {

using ::testing::HasSubstr;

struct Want {
  at::Tensor picture, next_picture, pose, next_pose;
  float reward = 0, discount = 0;
  std::int64_t next_tick = 0;
  const bool* next_legal = nullptr;
};

Want look_up(const History& h, std::int64_t tick, std::int64_t b, int n, double gamma, int stack) {
  Want want;
  const auto& start = h.at(tick, b);
  want.picture = stack_of(h, start.frame, tick - 1, b, start.is_first, stack);
  want.pose = History::pose(start.frame);
  float power = 1;
  for (int k = 0; k < n; ++k) {
    const auto& now = h.at(tick + k, b);
    want.reward += power * now.reward;
    power *= static_cast<float>(gamma);
    want.next_tick = tick + k + 1;
    if (now.terminated) {
      want.discount = 0;
      return want;
    }
    want.discount = power;
    if (now.truncated) {
      want.next_legal = now.last_legal;
      want.next_pose = History::pose(now.last_frame);
      want.next_picture = stack_of(h, now.last_frame, tick + k, b, false, stack);
      return want;
    }
  }
  const auto& next = h.at(want.next_tick, b);
  want.next_legal = next.legal;
  want.next_pose = History::pose(next.frame);
  want.next_picture = stack_of(h, next.frame, want.next_tick - 1, b, next.is_first, stack);
  return want;
}

void expect_step(const Transitions& batch, std::int64_t i, const History& h, int n, int stack) {
  const auto name = batch.index[i].item<std::int64_t>();
  const auto tick = name / kEnvs, b = name % kEnvs;
  ASSERT_TRUE(h.at(tick, b).valid);
  const auto want = look_up(h, tick, b, n, 0.9, stack);
  ASSERT_TRUE(at::equal(batch.observation.at("picture").dense()[i], want.picture)) << tick;
  ASSERT_TRUE(at::equal(batch.observation.at("pose").data[i], want.pose));
  ASSERT_EQ(batch.action[0][i].item<std::int64_t>(), h.at(tick, b).action);
  ASSERT_NEAR(batch.reward[i].item<float>(), want.reward, 1e-4);
  ASSERT_FLOAT_EQ(batch.discount[i].item<float>(), want.discount);
  for (std::int64_t a = 0; a < kActions; ++a)
    ASSERT_EQ(batch.mask[0][i][a].item<bool>(), h.at(tick, b).legal[a]);
  if (want.discount == 0) return;  // the next observation is not used
  ASSERT_TRUE(at::equal(batch.next_observation.at("picture").dense()[i], want.next_picture))
      << tick;
  ASSERT_TRUE(at::equal(batch.next_observation.at("pose").data[i], want.next_pose));
  for (std::int64_t a = 0; a < kActions; ++a)
    ASSERT_EQ(batch.next_mask[0][i][a].item<bool>(), want.next_legal[a]);
}

// Horizons that do not divide the ring, and several turns of it.
TEST(StepReplayTest, EqualsAFullStoreAcrossTheSeam) {
  for (const int stack : {1, 4}) {
    for (const int n : {1, 3, 6}) {
      for (const bool waits : {false, true}) {
        for (const bool prioritized : {false, true}) {
          SCOPED_TRACE(fmt::format("stack {}, n {}, waits {}, prioritized {}", stack, n, waits,
                                   prioritized));
          History history(stack, waits, 5);
          StepReplay replay(toy_spec(stack), kEnvs,
                            {.size = 60, .n_step = n, .discount = 0.9, .prioritized = prioritized});
          std::int64_t seen = 0;
          for (int rollout = 0; rollout < 40; ++rollout) {
            replay.append(history.rollout(1 + rollout % 7));
            if (rollout % 5 == 4) history.reset_between_rollouts(rollout % kEnvs);
            if (replay.size() == 0) continue;
            if (rollout % 5 == 4) continue;  // the history knows of the reset already
            const auto& batch = replay.sample(16);
            for (std::int64_t i = 0; i < 16; ++i) {
              expect_step(batch, i, history, n, stack);
              if (HasFatalFailure()) return;
            }
            ++seen;
          }
          EXPECT_GT(seen, 25);
        }
      }
    }
  }
}

// A resumed run with a new replay: observations before its first row are missing.
TEST(StepReplayTest, LooksBackNoFurtherThanItsFirstRow) {
  History history(4, false, 5);
  history.rollout(7);
  StepReplay replay(toy_spec(4), kEnvs, {.size = 60});
  replay.append(history.rollout(7));
  const auto& batch = replay.sample(200);
  const auto frames = batch.observation.at("picture").index;
  int seen = 0;
  for (std::int64_t i = 0; i < 200; ++i) {
    const auto tick = batch.index[i].item<std::int64_t>() / kEnvs;
    if (tick >= 3) continue;
    ++seen;
    EXPECT_TRUE(frames[i].narrow(0, 0, 3 - tick).eq(-1).all().item<bool>()) << tick;
  }
  EXPECT_GT(seen, 10);
}

// The newest `size` steps that are complete, every one of them and none other, equally often.
TEST(StepReplayTest, DrawsAllStepsThereAreAlike) {
  for (const bool waits : {false, true}) {
    History history(4, waits, 6);
    StepReplay replay(toy_spec(4), kEnvs,
                      {.size = 31, .n_step = 2, .discount = 0.9, .largest_batch = 60'000});
    for (int rollout = 0; rollout < 9; ++rollout) replay.append(history.rollout(5));
    std::map<std::int64_t, int> drawn;
    constexpr int kDraws = 60'000;
    const auto& batch = replay.sample(kDraws);
    for (std::int64_t i = 0; i < kDraws; ++i) ++drawn[batch.index[i].item<std::int64_t>()];
    std::int64_t valid = 0;
    constexpr std::int64_t kTicks = 11;  // 31 steps of 3 environments
    for (auto tick = 45 - 2 - kTicks + 1; tick <= 45 - 2; ++tick)
      for (std::int64_t b = 0; b < kEnvs; ++b) valid += history.at(tick, b).valid;
    EXPECT_EQ(std::ssize(drawn), valid);
    EXPECT_EQ(replay.size(), valid);
    EXPECT_GE(drawn.begin()->first / kEnvs, 45 - 2 - kTicks + 1);
    const double expected = static_cast<double>(kDraws) / static_cast<double>(valid);
    for (const auto& [name, count] : drawn)
      EXPECT_NEAR(count, expected, 5 * std::sqrt(expected)) << name;
  }
}

TEST(StepReplayTest, DrawsInProportionToThePowerOfPriorities) {
  History history(1, false, 7);
  StepReplay replay(toy_spec(1), kEnvs,
                    {.size = 30,
                     .n_step = 1,
                     .discount = 0.9,
                     .prioritized = true,
                     .alpha = 0.5,
                     .largest_batch = 200'000});
  for (int rollout = 0; rollout < 7; ++rollout) replay.append(history.rollout(3));
  const auto first = (history.ticks() - 10) * kEnvs;
  auto index = at::arange(first, first + 30, at::kLong), priority = at::arange(1, 31, at::kFloat);
  replay.update_priorities(index, priority);
  constexpr std::int64_t kDraws = 200'000;
  const auto& batch = replay.sample(kDraws, 0.7);
  const auto counts = at::bincount(batch.index - first, {}, 30).to(at::kDouble);
  const auto probability = priority.sqrt().to(at::kDouble) / priority.sqrt().sum();
  EXPECT_LT((counts / kDraws - probability).abs().max().item<double>(), 0.002);
  const auto weight = (30 * probability).pow(-0.7);
  const auto want = (weight / weight.max()).index_select(0, batch.index - first);
  EXPECT_LT((batch.weight - want).abs().max().item<double>(), 1e-5);
}

// Of as many equal priorities as there are draws, each part is one step.
TEST(StepReplayTest, DrawsFromEveryPartOfThePriorities) {
  History history(1, false, 3);
  StepReplay replay(toy_spec(1), kEnvs, {.size = 60, .prioritized = true});
  for (int rollout = 0; rollout < 3; ++rollout) replay.append(history.rollout(5));
  const auto index = replay.sample(replay.size()).index;
  EXPECT_EQ(std::get<0>(at::_unique(index)).size(0), replay.size());
}

TEST(StepReplayTest, NewStepsHaveTheLargestPrioritySoFar) {
  History history(1, false, 8);
  StepReplay replay(toy_spec(1), kEnvs,
                    {.size = 60, .prioritized = true, .alpha = 1, .largest_batch = 15'000});
  replay.append(history.rollout(4));
  replay.update_priorities(at::arange(12, at::kLong), at::full({12}, 1e6F));
  replay.append(history.rollout(1));
  const auto counts = at::bincount(replay.sample(15'000).index, {}, 15);
  EXPECT_GT(counts.min().item<std::int64_t>(), 800);
  EXPECT_LT(counts.max().item<std::int64_t>(), 1200) << "about 1000 each";
}

// Names of steps are permanent: another step has taken the cell in the ring.
TEST(StepReplayTest, ALatePriorityLandsNowhere) {
  History history(1, false, 9);
  StepReplay replay(toy_spec(1), kEnvs,
                    {.size = 30, .prioritized = true, .alpha = 1, .largest_batch = 30'000});
  replay.append(history.rollout(10));
  const auto old = replay.sample(64).index.clone();
  for (int rollout = 0; rollout < 3; ++rollout) replay.append(history.rollout(8));
  replay.update_priorities(old.narrow(0, 20, 1), at::full({1}, 1e9F));
  const auto counts = at::bincount(replay.sample(30'000).index);
  EXPECT_LT(counts.max().item<std::int64_t>(), 1100) << "about 1000 each: all are equal still";
}

TEST(StepReplayTest, OneSeedDrawsTheSame) {
  std::vector<at::Tensor> drawn;
  for (const std::uint64_t seed : {1, 1, 2}) {
    History history(1, false, 10);
    StepReplay replay(toy_spec(1), kEnvs, {.size = 60, .prioritized = true, .seed = seed});
    replay.append(history.rollout(20));
    drawn.push_back(replay.sample(50).index.clone());
  }
  EXPECT_TRUE(at::equal(drawn[0], drawn[1]));
  EXPECT_FALSE(at::equal(drawn[0], drawn[2]));
}

// One environment each.
TEST(StepReplayTest, DrawsAsManyStepsOfEachSlice) {
  for (const bool prioritized : {false, true}) {
    History history(1, false, 10);
    const StepReplayOptions options{
        .size = 60, .discount = 0.9, .prioritized = prioritized, .slices = 3};
    StepReplay replay(toy_spec(1), kEnvs, options);
    for (int rollout = 0; rollout < 5; ++rollout) replay.append(history.rollout(7));
    const auto& batch = replay.sample(30);
    const auto slice = at::arange(30).div(10, "floor");
    EXPECT_TRUE(at::equal(batch.index % kEnvs, slice));
    const auto tick = batch.index.div(kEnvs, "floor").view({3, 10});
    EXPECT_FALSE(at::equal(tick[0], tick[1]));
    for (std::int64_t i = 0; i < 30; ++i) expect_step(batch, i, history, 1, 1);
    EXPECT_THAT(message_of([&] { replay.sample(31); }),
                HasSubstr("found 31 steps, expected a multiple of 3 slices"));
  }
}

// Its worker died in its first step.
TEST(StepReplayTest, NothingIsDrawnWhileASliceIsEmpty) {
  for (const bool prioritized : {false, true}) {
    History history(1, false, 10);
    StepReplay replay(toy_spec(1), kEnvs, {.size = 60, .prioritized = prioritized, .slices = 3});
    auto lost = history.rollout(7);
    lost.valid.select(1, 1).fill_(false);
    lost.steps = lost.valid.sum().item<std::int64_t>();
    replay.append(lost);
    EXPECT_EQ(replay.size(), 0);
    EXPECT_THAT(message_of([&] { replay.sample(30); }), HasSubstr("a slice without one"));
    replay.append(history.rollout(7));
    EXPECT_GT(replay.size(), 0);
    EXPECT_TRUE((replay.sample(30).index % kEnvs).eq(1).any().item<bool>());
  }
}

void expect_same_batch(const Transitions& a, const Transitions& b) {
  EXPECT_TRUE(at::equal(a.index, b.index));
  EXPECT_TRUE(at::equal(a.weight, b.weight));
  EXPECT_TRUE(at::equal(a.reward, b.reward));
  EXPECT_TRUE(at::equal(a.discount, b.discount));
  const auto goes_on = a.discount.gt(0).unsqueeze(1);
  EXPECT_TRUE(at::equal(a.next_mask[0].logical_and(goes_on), b.next_mask[0].logical_and(goes_on)));
  for (const char* field : {"picture", "pose"}) {
    EXPECT_TRUE(at::equal(a.observation.at(field).dense(), b.observation.at(field).dense()));
    const auto live = a.discount.nonzero().squeeze(1);
    EXPECT_TRUE(at::equal(a.next_observation.at(field).dense().index_select(0, live),
                          b.next_observation.at(field).dense().index_select(0, live)));
  }
}

// Before the ring is full, and after several turns of it.
TEST(StepReplayTest, GoesOnFromWhatWasSaved) {
  for (const int rollouts : {2, 23}) {
    for (const auto& [prioritized, slices] :
         {std::pair{false, 1}, {true, 1}, {false, 3}, {true, 3}}) {
      const StepReplayOptions options{
          .size = 60, .n_step = 3, .discount = 0.9, .prioritized = prioritized, .slices = slices};
      History history(4, false, 14);
      StepReplay replay(toy_spec(4), kEnvs, options), other(toy_spec(4), kEnvs, options);
      const auto learn = [](StepReplay& from) {
        const auto& batch = from.sample(15, 0.5);
        if (from.prioritized()) from.update_priorities(batch.index, at::arange(1, 16, at::kFloat));
      };
      for (int rollout = 0; rollout < rollouts; ++rollout) {
        replay.append(history.rollout(4));
        learn(replay);
      }
      other.restore(copy_of(replay.save()));
      EXPECT_EQ(other.size(), replay.size());
      for (int rollout = 0; rollout < 20; ++rollout) {
        expect_same_batch(replay.sample(15, 0.5), other.sample(15, 0.5));
        for (auto* one : {&replay, &other}) learn(*one);
        const auto more = history.rollout(4);
        for (auto* one : {&replay, &other}) one->append(more);
      }
    }
  }
}

// A replay of all slices is split into one for each slice, and joined again: all draw what
// they would have drawn. After several turns of the ring, with final observations in it.
TEST(StepReplayTest, IsSharedOutAndPutTogetherAgain) {
  const StepReplayOptions options{
      .size = 60, .n_step = 3, .discount = 0.9, .prioritized = true, .slices = kEnvs};
  History history(4, false, 14);
  StepReplay whole(toy_spec(4), kEnvs, options), again(toy_spec(4), kEnvs, options);
  std::vector<std::unique_ptr<StepReplay>> shares;
  for (int r = 0; r < kEnvs; ++r) {
    auto own = options;
    own.size /= kEnvs, own.slices = 1, own.first_slice = r;
    shares.push_back(std::make_unique<StepReplay>(toy_spec(4), 1, own));
  }
  const auto learn = [](StepReplay& from, std::int64_t n) {
    const auto& batch = from.sample(n, 0.5);
    from.update_priorities(batch.index, batch.reward.abs() + 1);
  };
  for (int rollout = 0; rollout < 23; ++rollout) {
    whole.append(history.rollout(4));
    learn(whole, 15);
  }
  const auto saved = copy_of(whole.save());
  for (int r = 0; r < kEnvs; ++r)
    shares[static_cast<std::size_t>(r)]->restore(part_of_saved_replay(saved, r, 1));
  for (int rollout = 0; rollout < 20; ++rollout) {
    if (rollout == 9) {
      std::vector<NamedTensors> parts;
      for (const auto& share : shares) parts.push_back(copy_of(share->save()));
      again.restore(join_saved_replays(parts));
      EXPECT_EQ(again.size(), whole.size());
    }
    const auto& expected = whole.sample(15, 0.5);
    if (rollout >= 9) expect_same_batch(expected, again.sample(15, 0.5));
    for (int r = 0; r < kEnvs; ++r) {
      const auto& found = shares[static_cast<std::size_t>(r)]->sample(5, 0.5);
      EXPECT_TRUE(at::equal(found.reward, expected.reward.narrow(0, 5 * r, 5)));
      EXPECT_TRUE(at::equal(found.discount, expected.discount.narrow(0, 5 * r, 5)));
      EXPECT_TRUE(at::equal(found.index * kEnvs + r, expected.index.narrow(0, 5 * r, 5)));
      EXPECT_TRUE(at::equal(found.next_observation.at("picture").dense(),
                            expected.next_observation.at("picture").narrow(5 * r, 5).dense()));
      EXPECT_TRUE(at::equal(found.next_observation.at("pose").data,
                            expected.next_observation.at("pose").data.narrow(0, 5 * r, 5)));
      const auto goes_on = found.discount.gt(0).unsqueeze(1);
      EXPECT_TRUE(at::equal(found.next_mask[0].logical_and(goes_on),
                            expected.next_mask[0].narrow(0, 5 * r, 5).logical_and(goes_on)));
    }
    const auto more = history.rollout(4);
    for (int r = 0; r < kEnvs; ++r) {
      auto& share = *shares[static_cast<std::size_t>(r)];
      learn(share, 5);
      share.append(part_of(more, r, 1));
    }
    learn(whole, 15);
    whole.append(more);
    if (rollout < 9) continue;
    learn(again, 15);
    again.append(more);
  }
}

TEST(StepReplayTest, PartsOfDifferentStepsAreNotPutTogether) {
  History history(1, false, 15);
  StepReplay replay(toy_spec(1), kEnvs, {.size = 60});
  replay.append(history.rollout(5));
  const auto early = copy_of(replay.save());
  EXPECT_THAT(message_of([&] { part_of_saved_replay(early, 2, 2); }),
              HasSubstr("found 3 environments"));
  replay.append(history.rollout(5));
  EXPECT_THAT(message_of([&] {
                join_saved_replays({early, copy_of(replay.save())});
              }),
              HasSubstr("after 5 and 10 steps"));
}

TEST(StepReplayTest, GoesOnOnlyFromItsOwnKind) {
  History history(1, false, 15);
  StepReplay replay(toy_spec(1), kEnvs, {.size = 60});
  replay.append(history.rollout(5));
  StepReplay prioritized(toy_spec(1), kEnvs, {.size = 60, .prioritized = true});
  EXPECT_THAT(message_of([&] { prioritized.restore(replay.save()); }), HasSubstr("'priorities'"));
  StepReplay stacked(toy_spec(4), kEnvs, {.size = 60});
  EXPECT_THAT(message_of([&] { stacked.restore({}); }), HasSubstr("'ticks'"));
  StepReplay smaller(toy_spec(1), kEnvs, {.size = 9});
  EXPECT_THAT(message_of([&] { smaller.restore(replay.save()); }), HasSubstr("was saved as"));
  const auto refused_by = [&](const StepReplayOptions& options) {
    return message_of([&] { StepReplay(toy_spec(1), kEnvs, options).restore(replay.save()); });
  };
  EXPECT_THAT(refused_by({.size = 60, .n_step = 3}), HasSubstr("found n_step 1, expected 3"));
  EXPECT_THAT(refused_by({.size = 60, .discount = 0.9}),
              HasSubstr("found discount 0.99, expected 0.9"));
  StepReplay steeper(toy_spec(1), kEnvs, {.size = 60, .prioritized = true, .alpha = 0.9});
  EXPECT_THAT(message_of([&] { prioritized.restore(steeper.save()); }),
              HasSubstr("found alpha 0.9, expected 0.6"));
  auto too_many = copy_of(replay.save());
  too_many.at("open").fill_(1);
  EXPECT_THAT(message_of([&] { replay.restore(too_many); }), HasSubstr("expected 0 to 0"));
  EXPECT_THROW(StepReplay(toy_spec(1), kEnvs, {.size = 60, .prioritized = true, .alpha = 1.1}),
               Error);
  NamedTensors without_masks;
  for (const auto& [name, tensor] : replay.save())
    if (!name.starts_with("final_mask/")) without_masks.add(name, tensor);
  StepReplay other(toy_spec(1), kEnvs, {.size = 60});
  EXPECT_THAT(message_of([&] { other.restore(without_masks); }),
              HasSubstr("without the action masks of final observations"));
  auto rollout = history.rollout(5);
  while (rollout.final_obs.size() == 0) rollout = history.rollout(5);
  rollout.final_obs.mask = {};
  EXPECT_THAT(message_of([&] { replay.append(rollout); }), HasSubstr("0 action masks"));
}

// They would pile up in a long run.
TEST(StepReplayTest, LastObservationsAreDroppedWithTheirEpisodes) {
  History history(4, false, 13);
  StepStore store(toy_spec(4), kEnvs, {.size = 30, .n_step = 3});
  for (int rollout = 0; rollout < 100; ++rollout) store.append(history.rollout(5));
  EXPECT_GT(store.final_obs().places(), 0);
  EXPECT_LT(store.final_obs().places(), 30);
}

TEST(StepReplayTest, RefusesWhatMakesNoSense) {
  const auto spec = toy_spec(1);
  const auto make = [&](const StepReplayOptions& o) {
    return [&spec, o] { StepReplay(spec, kEnvs, o); };
  };
  EXPECT_THAT(message_of(make({.size = 2})), HasSubstr("found 2 steps for 3 environments"));
  EXPECT_THAT(message_of(make({.n_step = 0})), HasSubstr("n_step: found 0"));
  EXPECT_THAT(message_of(make({.discount = 1.5})), HasSubstr("discount: found 1.5"));
  EXPECT_THAT(message_of(make({.alpha = -1})), HasSubstr("alpha: found -1"));
  EXPECT_THAT(message_of(make({.slices = 2})), HasSubstr("slices: found 2 for 3 environments"));
  StepReplay replay(spec, kEnvs, {.size = 30});
  EXPECT_THAT(message_of([&] { replay.sample(4); }), HasSubstr("no complete step"));
  EXPECT_THAT(message_of([&] { replay.sample(1025); }), HasSubstr("expected 1 to 1024"));
  History history(1, false, 11);
  EXPECT_THAT(message_of([&] { replay.append(history.rollout(11)); }), HasSubstr("11 steps"));
  for (int rollout = 0; rollout < 5; ++rollout) replay.append(History(1, false, 11).rollout(3));
  const auto size = replay.size();
  auto wrong = history.rollout(3);
  wrong.observation.at("pose") = wrong.observation.at("pose").to(at::kDouble);
  EXPECT_THAT(message_of([&] { replay.append(wrong); }), HasSubstr("Double [3, 3]"));
  EXPECT_THAT(message_of([&] { replay.append(history.rollout(11)); }), HasSubstr("11 steps"));
  EXPECT_EQ(replay.size(), size) << "a rollout that was refused";
  replay.append(History(1, false, 11).rollout(3));
  EXPECT_EQ(replay.size(), size);
  EXPECT_THAT(message_of([&] { replay.sample(4, 2); }), HasSubstr("beta: found 2"));
  EXPECT_THAT(
      message_of([&] { replay.update_priorities(at::zeros({1}, at::kLong), at::ones({1})); }),
      HasSubstr("draws uniformly"));
  StepReplay other(spec, kEnvs, {.size = 30, .prioritized = true});
  other.append(History(1, false, 12).rollout(3));
  EXPECT_THAT(
      message_of([&] { other.update_priorities(at::zeros({1}, at::kLong), at::zeros({1})); }),
      HasSubstr("expected a number above 0"));
}

TEST(StepReplayTest, RefusesToGoOnBehindARolloutThatWasCutShort) {
  StepReplay replay(toy_spec(1), kEnvs, {.size = 30});
  History history(1, false, 14);
  auto cut = history.rollout(3), next = history.rollout(3);
  cut.valid[2][1] = false;
  next.is_first[0].fill_(false);
  replay.append(cut);
  const auto size = replay.size();
  EXPECT_THAT(message_of([&] { replay.append(next); }),
              HasSubstr("environment 1 continues its episode"));
  EXPECT_EQ(replay.size(), size);
  next.is_first[0][1] = true;
  replay.append(next);
  EXPECT_GT(replay.size(), size);
}

TEST(StepReplayTest, RefusesARolloutBehindAGap) {
  StepReplay replay(toy_spec(1), kEnvs, {.size = 60});
  History history(1, false, 14);
  replay.append(history.rollout(3));
  replay.append(history.rollout(3));
  history.rollout(3);  // dropped
  auto next = history.rollout(3);
  next.is_first[0].fill_(true);
  next.is_first[0][2] = false;
  const auto size = replay.size();
  EXPECT_THAT(message_of([&] { replay.append(next); }),
              HasSubstr("begins at tick 9 and environment 2 is in the middle of an episode, "
                        "which the replay has up to tick 6"));
  EXPECT_EQ(replay.size(), size);
  next.is_first[0][2] = true;
  replay.append(next);
  EXPECT_GT(replay.size(), size);
}

EnvSpec atari_spec() {
  EnvSpec spec;
  spec.observation = ArraySpec{.dtype = DType::kUInt8, .shape = {84, 84}, .stack = 4};
  spec.action = ActionSpec::discrete(6);
  return spec;
}

TEST(StepReplayTest, AMillionPicturesTakeTheirBytesOnce) {
  EXPECT_LT(StepReplay::bytes(atari_spec(), 16, {.size = 1'000'000, .prioritized = true}), 7.5e9);
  EXPECT_THAT(message_of([] { StepReplay(atari_spec(), 16, {.size = 1'000'000'000}); }),
              HasSubstr("is needed, but"));
}

}  // namespace
}  // namespace shoal
