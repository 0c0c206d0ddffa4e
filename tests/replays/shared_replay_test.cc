// Ranks that share a replay make the same draws as one rank with all environments. Threads
// stand in for processes, each with one environment.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "shoal/replays/sequence_replay.h"
#include "shoal/replays/step_replay.h"
#include "tests/replays/history.h"
#include "tests/support/message_of.h"
#include "tests/support/ranks_in_threads.h"

namespace shoal::shared_replay_test {
namespace {

using ::testing::HasSubstr;
using testing::in_ranks;

constexpr std::int64_t kT = 4, kBatch = 15;
const NamedSpecs kState{{"memory", ArraySpec{.shape = {2}}}};

// A batch, as tensors whose environments or steps are along the last dimension but those of a step.
using Drawn = NamedTensors;

struct Setting {
  int stack = 1;
  bool prioritized = false, waits = false;
};

class Steps {
 public:
  using Kind = StepReplay;
  static StepReplayOptions options(const Setting& s) {
    return {.size = 60,
            .n_step = 3,
            .discount = 0.9,
            .prioritized = s.prioritized,
            .largest_batch = kBatch};
  }
  static std::unique_ptr<Kind> make(const Setting& s) {
    return std::make_unique<Kind>(toy_spec(s.stack), kEnvs, options(s));
  }
  static std::unique_ptr<Kind> make(const Setting& s, ProcessGroup& ranks,
                                    const ReplayMemory& memory) {
    return std::make_unique<Kind>(toy_spec(s.stack), kEnvs, options(s), ranks, memory);
  }
  // One behind the other; the steps are along the first dimension.
  static Drawn draw(Kind& replay) {
    const auto& b = replay.sample(kBatch, 0.5);
    const auto alive = b.discount.gt(0);
    Drawn all{{"index", b.index},   {"reward", b.reward},    {"discount", b.discount},
              {"weight", b.weight}, {"action", b.action[0]}, {"mask", b.mask[0]}};
    for (const char* field : {"picture", "pose"}) {
      const auto next = b.next_observation.at(field).dense();
      const auto lives = alive.view({-1, 1}).expand({-1, next[0].numel()}).view(next.sizes());
      all.add(std::string("next ") + field, next * lives);
      all.add(field, b.observation.at(field).dense());
    }
    all.add("next mask", b.next_mask[0].logical_and(alive.unsqueeze(1)));
    if (replay.prioritized()) replay.update_priorities(b.index, b.reward.abs() + 1);
    return copy_of(all);
  }
};

class SequencesOf {
 public:
  using Kind = SequenceReplay;
  static SequenceReplayOptions options(const Setting& s) {
    return {.size = 90,
            .burn_in = 3,
            .length = 7,
            .interval = kT,
            .n_step = 3,
            .discount = 0.9,
            .prioritized = s.prioritized,
            .largest_batch = kBatch};
  }
  static std::unique_ptr<Kind> make(const Setting& s) {
    return std::make_unique<Kind>(toy_spec(s.stack), kState, kEnvs, options(s));
  }
  static std::unique_ptr<Kind> make(const Setting& s, ProcessGroup& ranks,
                                    const ReplayMemory& memory) {
    return std::make_unique<Kind>(toy_spec(s.stack), kState, kEnvs, options(s), ranks, memory);
  }
  static Drawn draw(Kind& replay) {
    const auto& s = replay.sample(kBatch, 0.5);
    const auto n = s.index.size(0);
    // Rows come first: [rows * n, ...] -> [n, rows, ...].
    const auto turned = [&](const at::Tensor& x) {
      auto shape = x.sizes().vec();
      shape.insert(shape.begin() + 1, n);
      shape[0] /= n;
      return x.view(shape).transpose(0, 1).contiguous();
    };
    Drawn all{{"index", s.index}, {"weight", s.weight}, {"state", s.state[0]}};
    for (const auto& [name, x] : {std::pair{"reward", s.reward},
                                  {"discount", s.discount},
                                  {"next", s.next},
                                  {"valid", s.valid},
                                  {"action", s.action[0]},
                                  {"first", s.is_first},
                                  {"previous action", s.previous_action[0]},
                                  {"previous reward", s.previous_reward},
                                  {"mask", s.mask[0]},
                                  {"picture", s.observation.at("picture").dense()},
                                  {"pose", s.observation.at("pose").dense()}})
      all.add(name, turned(x));
    if (replay.prioritized())
      replay.update_priorities(s.index, s.reward.view({-1, n}).abs().amax(0) + 1);
    return copy_of(all);
  }
};

// Rollouts, and whether something is drawn behind each of them.
std::vector<Samples> rollouts_of(const Setting& setting, int count) {
  History history(setting.stack, setting.waits, 21);
  std::vector<Samples> all;
  for (int w = 0; w < count; ++w) {
    all.push_back(history.rollout(kT));
    std::vector<at::Tensor> states;
    for (std::int64_t b = 0; b < kEnvs; ++b)
      states.push_back(at::full({2}, static_cast<float>(kEnvs * w + b)));
    all.back().initial_state = {{"memory", at::stack(states)}};
  }
  return all;
}

// Appends rollouts [from, to) of these environments and draws behind each.
template <class Of>
std::vector<Drawn> run(typename Of::Kind& replay, const std::vector<Samples>& rollouts,
                       std::size_t from, std::size_t to, std::int64_t first_env,
                       std::int64_t envs) {
  std::vector<Drawn> all;
  for (auto w = from; w < to; ++w) {
    auto part = part_of(rollouts[w], first_env, envs);
    part.initial_state[0] = part.initial_state[0].narrow(0, first_env, envs);
    replay.append(part);
    if (replay.size() > 0) all.push_back(Of::draw(replay));
  }
  return all;
}

void expect_together(const std::vector<std::vector<Drawn>>& ranks,
                     const std::vector<Drawn>& whole) {
  ASSERT_GT(whole.size(), 10u);
  for (const auto& one : ranks) ASSERT_EQ(one.size(), whole.size());
  for (std::size_t i = 0; i < whole.size(); ++i)
    for (const auto& [name, expected] : whole[i]) {
      std::vector<at::Tensor> parts;
      for (const auto& one : ranks) parts.push_back(one[i].at(name));
      ASSERT_TRUE(at::equal(at::cat(parts), expected)) << name << ", batch " << i;
    }
}

// Runs all ranks on a shared replay over rollouts [from, to); `saved` is their state before
// and after.
template <class Of>
void share(const Setting& setting, const std::vector<Samples>& rollouts, std::size_t from,
           std::size_t to, std::vector<NamedTensors>& saved,
           std::vector<std::vector<Drawn>>& drawn) {
  const ReplayMemory memory;
  drawn.assign(kEnvs, {});
  const auto said = in_ranks(kEnvs, [&](ProcessGroup& ranks) {
    const auto r = static_cast<std::size_t>(ranks.rank());
    const auto replay = Of::make(setting, ranks, memory);
    if (!saved.empty()) replay->restore(saved.at(r));
    ranks.gather({});  // all have read it
    if (r == 0) saved.resize(kEnvs);
    drawn[r] = run<Of>(*replay, rollouts, from, to, ranks.rank(), 1);
    saved[r] = copy_of(replay->save());
  });
  for (const auto& text : said) EXPECT_EQ(text, "");
}

// Also from the saved state of sharing ranks, and of one rank with all; after several turns of
// the ring.
template <class Of>
void expect_what_one_draws(const Setting& setting) {
  SCOPED_TRACE(fmt::format("stack {}, prioritized {}, waits {}", setting.stack, setting.prioritized,
                           setting.waits));
  constexpr std::size_t kFirst = 37, kAll = 70;
  const auto rollouts = rollouts_of(setting, kAll);
  const auto whole = Of::make(setting);
  const auto expected = run<Of>(*whole, rollouts, 0, kFirst, 0, kEnvs);
  const auto saved = copy_of(whole->save());
  const auto expected_then = run<Of>(*whole, rollouts, kFirst, kAll, 0, kEnvs);

  std::vector<NamedTensors> parts;
  std::vector<std::vector<Drawn>> drawn;
  share<Of>(setting, rollouts, 0, kFirst, parts, drawn);
  expect_together(drawn, expected);
  const auto joined = join_saved_replays(parts);
  share<Of>(setting, rollouts, kFirst, kAll, parts, drawn);
  expect_together(drawn, expected_then);

  const auto alone = Of::make(setting);
  alone->restore(joined);
  expect_together({run<Of>(*alone, rollouts, kFirst, kAll, 0, kEnvs)}, expected_then);

  parts.clear();
  for (int r = 0; r < kEnvs; ++r) parts.push_back(part_of_saved_replay(saved, r, 1));
  share<Of>(setting, rollouts, kFirst, kAll, parts, drawn);
  expect_together(drawn, expected_then);
}

TEST(SharedReplayTest, RanksDrawWhatOneDraws) {
  for (const int stack : {1, 4})
    for (const bool prioritized : {false, true})
      expect_what_one_draws<Steps>({stack, prioritized, /*waits=*/prioritized});
}

TEST(SharedReplayTest, RanksDrawTheSequencesThatOneDraws) {
  for (const int stack : {1, 4})
    for (const bool prioritized : {false, true})
      expect_what_one_draws<SequencesOf>({stack, prioritized, /*waits=*/!prioritized});
}

// Separately saved replays are restored as one, with the generator that has drawn most.
TEST(SharedReplayTest, GoesOnFromReplaysOfTheirOwn) {
  const Setting setting{.prioritized = true};
  const auto rollouts = rollouts_of(setting, 30);
  std::vector<NamedTensors> saved;
  for (int r = 0; r < kEnvs; ++r) {
    auto own = Steps::options(setting);
    own.size /= kEnvs;
    StepReplay replay(toy_spec(1), 1, own);
    run<Steps>(replay, rollouts, 0, 10, r, 1);
    for (int more = 0; more < r; ++more) Steps::draw(replay);
    saved.push_back(copy_of(replay.save()));
  }
  const auto whole = Steps::make(setting);
  whole->restore(join_saved_replays(saved));
  std::vector<std::vector<Drawn>> drawn;
  share<Steps>(setting, rollouts, 10, 30, saved, drawn);
  expect_together(drawn, run<Steps>(*whole, rollouts, 10, 30, 0, kEnvs));
}

TEST(SharedReplayTest, WhoCannotShareIsTold) {
  const auto said_of = [](StepReplayOptions options, std::int64_t envs, std::int64_t T) {
    const ReplayMemory memory;
    const auto rollouts = rollouts_of({}, 1);
    return in_ranks(kEnvs, [&](ProcessGroup& ranks) {
      StepReplay replay(toy_spec(1), envs, options, ranks, memory);
      auto own = part_of(rollouts[0], ranks.rank(), 1);
      own.T = ranks.rank() == 1 ? T : kT;
      replay.append(own);
      replay.sample(kBatch - 1);
    });
  };
  for (const auto& text : said_of({.size = 60, .slices = 3}, kEnvs, kT))
    EXPECT_THAT(text, HasSubstr("slices: found 3, expected 1"));
  for (const auto& text : said_of({.size = 60}, kEnvs, kT - 1))
    EXPECT_THAT(text, HasSubstr("rollouts of equal length"));
  for (const auto& text : said_of({.size = 60}, kEnvs, kT))
    EXPECT_THAT(text, HasSubstr("found 14 steps, expected a multiple of 3 ranks"));
}

}  // namespace
}  // namespace shoal::shared_replay_test
