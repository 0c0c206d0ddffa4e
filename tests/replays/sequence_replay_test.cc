#include "shoal/replays/sequence_replay.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <map>
#include <vector>

#include "shoal/core/error.h"
#include "tests/replays/history.h"
#include "tests/support/message_of.h"

namespace shoal::sequence_replay_test {
namespace {

const NamedSpecs kState{{"memory", ArraySpec{.shape = {2}}}};

SequenceReplayOptions options(int n) {
  return {.size = 90,
          .burn_in = 3,
          .length = 7,
          .interval = 4,
          .n_step = n,
          .discount = 0.9,
          .largest_batch = 16};
}

// The state at the beginning of rollout w.
at::Tensor state_of(std::int64_t w, std::int64_t b) {
  return at::tensor({static_cast<float>(w), static_cast<float>(b)});
}

Samples rollout_of(History& history) {
  const auto w = history.ticks() / 4;
  auto s = history.rollout(4);
  std::vector<at::Tensor> states;
  for (std::int64_t b = 0; b < kEnvs; ++b) states.push_back(state_of(w, b));
  s.initial_state = {{"memory", at::stack(states)}};
  return s;
}

// A row of the history: a step, or the final observation after it.
struct Row {
  std::int64_t tick;
  bool last;
};

bool cut(const Moment& m) { return m.valid && m.truncated && !m.terminated; }

std::vector<Row> rows_of(const History& h, std::int64_t tick, std::int64_t b, std::int64_t count) {
  std::vector<Row> rows;
  for (; static_cast<std::int64_t>(rows.size()) < count; ++tick) {
    rows.push_back({tick, false});
    if (cut(h.at(tick, b)) && static_cast<std::int64_t>(rows.size()) < count)
      rows.push_back({tick, true});
  }
  return rows;
}

void expect_row(const Sequences& s, std::int64_t at, const History& h, const Row& row,
                std::int64_t b, int stack) {
  const auto& m = h.at(row.tick, b);
  const auto frame = row.last ? m.last_frame : m.frame;
  const auto before = row.last ? row.tick : row.tick - 1;
  const bool begins = m.is_first && !row.last;
  if (m.valid) {
    ASSERT_TRUE(at::equal(s.observation.at("picture").dense()[at],
                          stack_of(h, frame, before, b, begins, stack)));
    ASSERT_TRUE(at::equal(s.observation.at("pose").data[at], History::pose(frame)));
    for (std::int64_t a = 0; a < kActions; ++a)
      ASSERT_EQ(s.mask[0][at][a].item<bool>(), row.last ? m.last_legal[a] : m.legal[a]);
  }
  ASSERT_EQ(s.is_first[at].item<bool>(), begins);
  const bool nothing = begins || before < 0;
  ASSERT_EQ(s.previous_action[0][at].item<std::int64_t>(), nothing ? 0 : h.at(before, b).action);
  ASSERT_EQ(s.previous_reward[at].item<float>(), nothing ? 0 : h.at(before, b).reward);
}

void expect_step(const Sequences& s, std::int64_t t, std::int64_t i, const History& h,
                 const Row& row, std::int64_t b, int n) {
  const auto at = t * s.index.size(0) + i;
  const auto& m = h.at(row.tick, b);
  ASSERT_EQ(s.valid[at].item<bool>(), m.valid && !row.last);
  if (!m.valid || row.last) return;
  float reward = 0, power = 1, discount = 0;
  std::int64_t steps = 0;
  for (int k = 0; k < n; ++k) {
    const auto& now = h.at(row.tick + k, b);
    reward += power * now.reward;
    power *= 0.9F;
    discount = now.terminated ? 0 : power;
    ++steps;
    if (now.terminated || now.truncated) break;
  }
  ASSERT_EQ(s.action[0][at].item<std::int64_t>(), m.action);
  ASSERT_NEAR(s.reward[at].item<float>(), reward, 1e-4);
  ASSERT_NEAR(s.discount[at].item<float>(), discount, 1e-6);
  ASSERT_EQ(s.next[at].item<std::int64_t>(), steps);
}

void expect_sequence(const Sequences& s, std::int64_t i, const History& h, int n, int stack) {
  const auto name = s.index[i].item<std::int64_t>(), N = s.index.size(0);
  const auto w = name / kEnvs, b = name % kEnvs;
  ASSERT_TRUE(at::equal(s.state[0][i], state_of(w, b)));
  const auto rows = rows_of(h, w * 4, b, s.rows);
  for (std::int64_t r = 0; r < s.rows; ++r)
    expect_row(s, r * N + i, h, rows[static_cast<std::size_t>(r)], b, stack);
  for (std::int64_t t = 0; t < s.length; ++t)
    expect_step(s, t, i, h, rows[static_cast<std::size_t>(s.burn_in + t)], b, n);
}

TEST(SequenceReplayTest, EqualsAFullStoreAcrossTheSeam) {
  for (const int stack : {1, 4, 16}) {
    for (const int n : {1, 3, 6}) {
      for (const bool waits : {false, true}) {
        SCOPED_TRACE(fmt::format("stack {}, n {}, waits {}", stack, n, waits));
        History history(stack, waits, 5);
        auto o = options(n);
        o.prioritized = stack == 1;
        SequenceReplay replay(toy_spec(stack), kState, kEnvs, o);
        int seen = 0;
        for (int rollout = 0; rollout < 40; ++rollout) {
          replay.append(rollout_of(history));
          const bool reset = rollout % 5 == 4;
          if (reset) history.reset_between_rollouts(rollout % kEnvs);
          if (reset || replay.size() == 0) continue;  // the history knows of the reset already
          const auto& batch = replay.sample(9);
          for (std::int64_t i = 0; i < 9; ++i) {
            expect_sequence(batch, i, history, n, stack);
            if (HasFatalFailure()) return;
          }
          ++seen;
        }
        EXPECT_GT(seen, 25);
      }
    }
  }
}

// Of 90 steps of 3 environments, every sequence that lies in them completely.
TEST(SequenceReplayTest, DrawsAllSequencesThereAreAlike) {
  for (const bool prioritized : {false, true}) {
    History history(1, false, 6);
    auto o = options(2);
    o.prioritized = prioritized;
    SequenceReplay replay(toy_spec(1), kState, kEnvs, o);
    for (int rollout = 0; rollout < 21; ++rollout) replay.append(rollout_of(history));
    std::map<std::int64_t, int> drawn;
    for (int i = 0; i < 500; ++i) {
      const auto& batch = replay.sample(16);
      EXPECT_TRUE(batch.weight.eq(1).all().item<bool>());
      for (std::int64_t k = 0; k < 16; ++k) ++drawn[batch.index[k].item<std::int64_t>()];
    }
    EXPECT_EQ(static_cast<std::int64_t>(drawn.size()), replay.size());
    // 84 ticks are there; a sequence has 10 rows and 2 more. The ring has 30 ticks, 1 more before.
    EXPECT_EQ(drawn.begin()->first / kEnvs, 14);
    EXPECT_EQ(drawn.rbegin()->first / kEnvs, 18);
    for (const auto& [name, times] : drawn) EXPECT_NEAR(times, 8000.0 / 15, 120) << name;
  }
}

TEST(SequenceReplayTest, PrioritiesDecideAndALateOneLandsOnNothingNewer) {
  History history(1, false, 6);
  SequenceReplay replay(toy_spec(1), kState, kEnvs, options(2));
  for (int rollout = 0; rollout < 8; ++rollout) replay.append(rollout_of(history));
  replay.update_priorities(at::arange(100), at::full({100}, 1e-6));
  replay.update_priorities(at::tensor({std::int64_t{4}}), at::tensor({2.0F}));
  const auto& batch = replay.sample(16, 0.5);
  EXPECT_TRUE(batch.index.eq(4).all().item<bool>());
  for (int rollout = 0; rollout < 9; ++rollout) replay.append(rollout_of(history));
  // The cell of sequence 4 holds another one now, or none.
  replay.update_priorities(at::tensor({std::int64_t{4}}), at::tensor({1e9F}));
  std::map<std::int64_t, int> drawn;
  const auto& later = replay.sample(16);
  for (std::int64_t k = 0; k < 16; ++k) ++drawn[later.index[k].item<std::int64_t>()];
  EXPECT_GT(drawn.size(), 5u);
}

TEST(SequenceReplayTest, GoesOnOnlyWithTheSameSequences) {
  History history(1, false, 7);
  SequenceReplay one(toy_spec(1), kState, kEnvs, options(3));
  for (int rollout = 0; rollout < 9; ++rollout) one.append(rollout_of(history));
  auto longer = options(3);
  ++longer.length;
  --longer.burn_in;
  SequenceReplay other(toy_spec(1), kState, kEnvs, longer);
  EXPECT_THAT(message_of([&] { other.restore(one.save()); }),
              testing::HasSubstr("saved replay: found burn_in"));
}

TEST(SequenceReplayTest, GoesOnFromWhatWasSaved) {
  for (const int stack : {1, 4}) {
    History history(stack, false, 7);
    SequenceReplay one(toy_spec(stack), kState, kEnvs, options(3)),
        other(toy_spec(stack), kState, kEnvs, options(3));
    for (int rollout = 0; rollout < 19; ++rollout) one.append(rollout_of(history));
    const auto& drawn = one.sample(5);
    one.update_priorities(drawn.index, at::tensor({1.0F, 2.0F, 3.0F, 4.0F, 5.0F}));
    NamedTensors saved;
    for (const auto& [name, tensor] : one.save()) saved.add(name, tensor.clone());
    other.restore(saved);
    for (int rollout = 0; rollout < 12; ++rollout) {
      const auto& a = one.sample(8);
      const auto& b = other.sample(8);
      EXPECT_TRUE(at::equal(a.index, b.index));
      EXPECT_TRUE(at::equal(a.state[0], b.state[0]));
      EXPECT_TRUE(
          at::equal(a.observation.at("picture").dense(), b.observation.at("picture").dense()));
      EXPECT_TRUE(at::equal(a.reward, b.reward));
      const auto next = rollout_of(history);
      one.append(next);
      other.append(next);
      EXPECT_EQ(one.size(), other.size());
    }
  }
}

TEST(SequenceReplayTest, TellsWhatItTakes) {
  const auto bytes = [](std::int64_t units) {
    return SequenceReplay::bytes(toy_spec(1), ArraySpec{.shape = {units}}, kEnvs, options(1));
  };
  // 90 steps of 24 bytes and more, and the states of at least 8 rollouts.
  EXPECT_GT(bytes(0), 90U * 24);
  EXPECT_GE(bytes(100) - bytes(0), 8U * kEnvs * 400);
  EXPECT_LT(bytes(100) - bytes(0), 16U * kEnvs * 400);
}

TEST(SequenceReplayTest, RefusesWhatMakesNoSense) {
  const auto make = [](SequenceReplayOptions o) {
    SequenceReplay replay(toy_spec(1), kState, kEnvs, o);
  };
  auto o = options(1);
  make(o);
  o.size = 30;
  EXPECT_THROW(make(o), Error);
  o = options(1), o.length = 0;
  EXPECT_THROW(make(o), Error);
  o = options(1), o.interval = 0;
  EXPECT_THROW(make(o), Error);
  o = options(1), o.burn_in = -1;
  EXPECT_THROW(make(o), Error);
  History history(1, false, 7);
  SequenceReplay replay(toy_spec(1), kState, kEnvs, options(1));
  EXPECT_THROW(replay.sample(1), Error) << "nothing is there";
  EXPECT_THROW(replay.append(history.rollout(5)), Error) << "another interval";
  EXPECT_THROW(replay.append(history.rollout(4)), Error) << "no state";
}

}  // namespace
}  // namespace shoal::sequence_replay_test
