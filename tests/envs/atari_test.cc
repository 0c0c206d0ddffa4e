#include "shoal/envs/atari.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <set>
#include <string>
#include <vector>

#include "shoal/core/error.h"
#include "tests/envs/env_player.h"
#include "tests/support/allocations.h"
#include "tests/support/message_of.h"

namespace shoal {
namespace {

constexpr AtariOptions kPlain = {.noop_max = 0};

std::string error_of(const std::string& id, const AtariOptions& options = {}) {
  return message_of([&] { make_atari(id, options); });
}

TEST(AtariTest, KnowsEveryGameForOnePlayer) {
  const auto ids = atari_ids();
  EXPECT_EQ(ids.size(), 104U);
  for (const char* id : {"ALE/Pong-v5", "ALE/SpaceInvaders-v5", "ALE/TicTacToe3D-v5",
                         "ALE/UpNDown-v5", "ALE/Pitfall2-v5"})
    EXPECT_NE(std::ranges::find(ids, id), ids.end()) << id;
  for (const char* id : {"ALE/Combat-v5", "ALE/Joust-v5", "ALE/MazeCraze-v5", "ALE/Warlords-v5"})
    EXPECT_EQ(std::ranges::find(ids, id), ids.end()) << id;
}

TEST(AtariTest, DescribesItself) {
  for (const char* id : {"ALE/Pong-v5", "ALE/JourneyEscape-v5", "ALE/Pooyan-v5", "ALE/Carnival-v5",
                         "ALE/Tetris-v5"}) {
    EnvPlayer player(make_atari(id));
    const EnvSpec& spec = player.env->spec();
    EXPECT_EQ(spec.id, id);
    EXPECT_EQ(spec.observation[0].shape, (std::vector<std::int64_t>{84, 84}));
    EXPECT_EQ(spec.observation[0].stack, 4);
    EXPECT_EQ(spec.info[0].name, "score");
    player.reset(1);
    EXPECT_EQ(player.info<float>(0), 0);
    EXPECT_GT(*std::ranges::max_element(player.observation), std::byte{0});
  }
  EXPECT_EQ(EnvPlayer(make_atari("ALE/Pong-v5")).actions(), 6);
  EXPECT_EQ(EnvPlayer(make_atari("ALE/Pong-v5", {.full_action_set = true})).actions(), 18);
}

TEST(AtariTest, DescribesItselfInColour) {
  const EnvPlayer player(make_atari("ALE/Pong-v5", {.screen = 96, .rgb = true}));
  const ArraySpec& spec = player.env->spec().observation[0];
  EXPECT_EQ(spec.shape, (std::vector<std::int64_t>{3, 96, 96}));
  EXPECT_EQ(spec.stack, 4);
}

TEST(AtariTest, RefusesUnknownGamesAndOptions) {
  EXPECT_EQ(error_of("ALE/Pnog-v5"),
            "unknown Atari game 'ALE/Pnog-v5'; did you mean 'ALE/Pong-v5'?");
  EXPECT_NE(error_of("ALE/Combat-v5").find("unknown Atari game 'ALE/Combat-v5'"),
            std::string::npos);
  EXPECT_NE(error_of("ALE/Pong-v5", {.frame_skip = 0}).find("frame_skip is 0"), std::string::npos);
  EXPECT_NE(error_of("ALE/Pong-v5", {.noop_max = -1}).find("noop_max is -1"), std::string::npos);
  EXPECT_NE(error_of("ALE/Pong-v5", {.sticky = 1}).find("sticky is 1"), std::string::npos);
  EXPECT_NE(error_of("ALE/Pong-v5", {.screen = 161}).find("screen is 161"), std::string::npos);
  EXPECT_NE(error_of("ALE/Pong-v5", {.screen = 15, .rgb = true}).find("screen is 15"),
            std::string::npos);
  EXPECT_NE(error_of("ALE/Pong-v5", {.max_frames = 30}).find("max_frames is 30"),
            std::string::npos);
  EnvPlayer player(make_atari("ALE/Pong-v5"));
  player.reset(1);
  EXPECT_THROW(player.step(6), Error);
}

TEST(AtariTest, SaysWhatIsMissing) {
  setenv("SHOAL_ROMS", "/nonexistent", 1);
  EXPECT_NE(error_of("ALE/Pong-v5").find("no ROMs (*.bin) in '/nonexistent'"), std::string::npos);
  EXPECT_TRUE(atari_ids().empty());
  unsetenv("SHOAL_ROMS");
}

// In a new process, because the plugin is loaded once per process.
TEST(AtariTest, SaysThatThePluginIsMissing) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_EXIT(
      {
        setenv("SHOAL_ALE_PLUGIN", "/nonexistent.so", 1);
        const std::string error = error_of("ALE/Pong-v5");
        const bool named = error.find("there is no plugin '/nonexistent.so'") != std::string::npos;
        _exit(named && atari_ids().empty() ? 0 : 1);
      },
      testing::ExitedWithCode(0), "");
}

// ALE itself would exit the process on a file with the right name and wrong content.
TEST(AtariTest, RefusesAFileThatIsNoGame) {
  const std::string folder = testing::TempDir() + "shoal_roms_" + std::to_string(getpid());
  ASSERT_EQ(
      std::system(("mkdir -p " + folder + " && echo nonsense > " + folder + "/pong.bin").c_str()),
      0);
  setenv("SHOAL_ROMS", folder.c_str(), 1);
  EXPECT_NE(error_of("ALE/Pong-v5").find("is not a game that ALE supports"), std::string::npos);
  unsetenv("SHOAL_ROMS");
  std::system(("rm -r " + folder).c_str());
}

TEST(AtariTest, TheFrameCapTruncates) {
  EnvPlayer player(make_atari("ALE/Pong-v5", {.noop_max = 0, .max_frames = 40}));
  for (int episode = 0; episode < 2; ++episode) {
    player.reset(episode);
    for (int t = 0; t < 9; ++t) ASSERT_FALSE(player.step(0).truncated) << t;
    const StepResult last = player.step(0);
    EXPECT_TRUE(last.truncated);
    EXPECT_FALSE(last.terminated);
  }
}

TEST(AtariTest, ALostLifeEndsAnEpisodeButNotTheGame) {
  EnvPlayer player(
      make_atari("ALE/Breakout-v5", {.noop_max = 0, .fire_on_reset = true, .episodic_life = true}));
  player.reset(1);
  int lives_lost = 0, t = 0;
  StepResult last;
  for (; t < 2000 && (!last.terminated || last.life_lost); ++t) {
    last = player.step(3);  // in the left corner: every ball is lost, and FIRE serves the next
    lives_lost += last.life_lost;
  }
  EXPECT_EQ(lives_lost, 4);
  EXPECT_TRUE(last.terminated);
  EXPECT_FALSE(last.life_lost);
}

// So an agent that has never had to press FIRE plays such a game to its end.
TEST(AtariTest, FireServesTheNextBallInAGameThatIsOneEpisode) {
  EnvPlayer player(make_atari("ALE/Breakout-v5", {.noop_max = 0, .fire_on_reset = true}));
  player.reset(1);
  StepResult last;
  for (int t = 0; t < 2000 && !last.terminated; ++t) last = player.step(3);
  EXPECT_TRUE(last.terminated);
  EXPECT_FALSE(last.life_lost);
}

TEST(AtariTest, ClipsTheRewardButNotTheScore) {
  EnvPlayer player(make_atari("ALE/Seaquest-v5", {.noop_max = 0, .clip_reward = true}));
  player.reset(1);
  OracleActions actions;
  float best = 0;
  for (int t = 0; t < 1000; ++t) {
    const StepResult result = player.step(actions.next(18));
    EXPECT_EQ(result.reward, player.info<float>(0) > 0 ? 1 : 0);
    best = std::max(best, player.info<float>(0));
    if (result.terminated) player.reset();
  }
  EXPECT_GE(best, 20);
}

std::vector<std::byte> trace(EnvPlayer& player, std::optional<std::uint64_t> seed, int steps) {
  std::vector<std::byte> all;
  OracleActions actions;
  player.reset(seed);
  for (int t = 0; t < steps; ++t) {
    const StepResult result = player.step(actions.next(player.actions()));
    all.insert(all.end(), player.observation.begin(), player.observation.end());
    all.push_back(static_cast<std::byte>(result.reward));
    if (result.terminated || result.truncated) player.reset();
  }
  return all;
}

TEST(AtariTest, OneSeedOneTrajectory) {
  for (const char* id :
       {"ALE/Breakout-v5", "ALE/BeamRider-v5"}) {  // the second keeps state of past games
    const auto factory = make_atari(id, {.sticky = 0.25});
    EnvPlayer a(factory), b(factory);
    const auto first = trace(a, 5, 300);
    EXPECT_EQ(trace(b, 5, 300), first) << id;
    EXPECT_NE(trace(b, 6, 300), first) << id;
    EXPECT_EQ(trace(a, 5, 300), first) << id << ": a seed does not wipe out what was played before";
  }
}

// Without frame skip a step is a frame. In Freeway the screen shows the number of frames so far,
// because the cars drive from the first frame on and UP moves the chicken at once.
constexpr AtariOptions kFrameByFrame = {.frame_skip = 1, .noop_max = 0};
constexpr std::int64_t kUp = 1;

// The screen of Freeway after some frames: no-ops first, then UP.
std::vector<std::byte> freeway(EnvPlayer& player, int noops, int frames, std::uint64_t seed = 0) {
  player.reset(seed);
  for (int t = 0; t < frames; ++t) player.step(t < noops ? 0 : kUp);
  return player.observation;
}

TEST(AtariTest, NoopsAloneDelayTheStart) {
  EnvPlayer plain(make_atari("ALE/Freeway-v5", kFrameByFrame));
  std::vector<std::vector<std::byte>> starts;  // 0 to one more than the limit
  for (int noops = 0; noops <= 5; ++noops) starts.push_back(freeway(plain, noops, noops));
  EnvPlayer delayed(make_atari("ALE/Freeway-v5", {.frame_skip = 1, .noop_max = 4}));
  std::set<std::ptrdiff_t> drawn;
  for (std::uint64_t seed = 0; seed < 24; ++seed) {
    const auto start = freeway(delayed, 0, 0, seed);
    drawn.insert(std::ranges::find(starts, start) - starts.begin());
  }
  EXPECT_EQ(drawn, (std::set<std::ptrdiff_t>{1, 2, 3, 4}));
}

// A game begins with a no-op as the held action. With UP from the first frame on, stickiness can
// only delay the first UP; each frame of the delay is a repetition, and the frame after it is not.
TEST(AtariTest, StickinessAloneRepeatsThatShareOfTheFrames) {
  constexpr int kFrames = 8;
  EnvPlayer plain(make_atari("ALE/Freeway-v5", kFrameByFrame));
  std::vector<std::vector<std::byte>> ends;
  for (int delay = 0; delay <= kFrames; ++delay) ends.push_back(freeway(plain, delay, kFrames));
  EnvPlayer sticky(make_atari("ALE/Freeway-v5", {.frame_skip = 1, .noop_max = 0, .sticky = 0.25}));
  double repeated = 0, frames = 0;
  for (std::uint64_t seed = 0; seed < 64; ++seed) {
    const auto end = freeway(sticky, 0, kFrames, seed);
    const auto delay = std::ranges::find(ends, end) - ends.begin();
    ASSERT_LE(delay, kFrames) << "seed " << seed << " shows more than a delay";
    repeated += static_cast<double>(delay);
    frames += static_cast<double>(delay + 1);
  }
  EXPECT_NEAR(repeated / frames, 0.25, 0.05);
}

TEST(AtariTest, StickinessHoldsWhatTheFrameBeforeHeld) {
  EnvPlayer plain(make_atari("ALE/Freeway-v5", kFrameByFrame));
  // Almost certain to repeat: the initial no-op is held forever.
  EnvPlayer stuck(
      make_atari("ALE/Freeway-v5", {.frame_skip = 1, .noop_max = 0, .sticky = 0.999999999}));
  EXPECT_EQ(freeway(stuck, 0, 30), freeway(plain, 30, 30));
}

TEST(AtariTest, StickinessIsDrawnForEveryFrame) {
  EnvPlayer steps(make_atari("ALE/Freeway-v5", {.noop_max = 0, .sticky = 0.25}));
  EnvPlayer frames(make_atari("ALE/Freeway-v5", {.frame_skip = 1, .noop_max = 0, .sticky = 0.25}));
  steps.reset(3);
  frames.reset(3);
  OracleActions actions;
  for (int t = 0; t < 60; ++t) {
    const std::int64_t action = actions.next(steps.actions());
    steps.step(action);
    for (int i = 0; i < 4; ++i) frames.step(action);
    Image a, b;  // the console's screen: the observations differ, because one is pooled
    ASSERT_TRUE(steps.env->render(a) && frames.env->render(b));
    ASSERT_EQ(a.rgb, b.rgb) << t;
  }
}

struct Saved {
  const char* id;
  bool rgb = false;
};

// Games with counters, delayed drawing, or paddles.
class AtariSaveTest : public testing::TestWithParam<Saved> {};

TEST_P(AtariSaveTest, ContinuesExactly) {
  const auto factory = make_atari(GetParam().id, {.fire_on_reset = true,
                                                  .episodic_life = true,
                                                  .sticky = 0.25,
                                                  .max_frames = 2000,
                                                  .rgb = GetParam().rgb});
  EnvPlayer a(factory), b(factory, 9);
  trace(a, 5, 150);
  std::vector<std::byte> bytes;
  ASSERT_TRUE(a.env->save(bytes));
  ASSERT_TRUE(b.env->load(bytes));
  OracleActions actions;
  for (int t = 0; t < 600; ++t) {
    const std::int64_t action = actions.next(a.actions());
    const StepResult x = a.step(action), y = b.step(action);
    ASSERT_EQ(a.observation, b.observation) << t;
    ASSERT_EQ(x.reward, y.reward) << t;
    ASSERT_EQ(x.terminated, y.terminated) << t;
    ASSERT_EQ(x.truncated, y.truncated) << t;
    if ((!x.terminated || x.life_lost) && !x.truncated) continue;
    a.reset();
    b.reset();
    ASSERT_EQ(a.observation, b.observation) << t;
  }
  EXPECT_THROW(b.env->load(std::span(bytes).first(100)), Error);
}

INSTANTIATE_TEST_SUITE_P(Games, AtariSaveTest,
                         testing::Values(Saved{"ALE/Pong-v5"}, Saved{"ALE/Breakout-v5"},
                                         Saved{"ALE/Breakout-v5", true}, Saved{"ALE/Seaquest-v5"},
                                         Saved{"ALE/Adventure-v5"}, Saved{"ALE/Adventure-v5", true},
                                         Saved{"ALE/MontezumaRevenge-v5"}, Saved{"ALE/Qbert-v5"}),
                         [](const auto& test) {
                           const std::string id = test.param.id;  // ALE/Pong-v5
                           return id.substr(4, id.size() - 7) + (test.param.rgb ? "InColour" : "");
                         });

// A step that ends early shows the old content of the frame buffers.
TEST(AtariTest, SavesWhatABrokenOffStepShows) {
  for (const bool rgb : {false, true}) {
    const auto factory =
        make_atari("ALE/Breakout-v5", {.noop_max = 0, .episodic_life = true, .rgb = rgb});
    EnvPlayer a(factory), b(factory);
    a.reset(1);
    b.reset(1);
    std::vector<std::byte> before;
    OracleActions actions;
    int lives_lost = 0;
    for (int t = 0; t < 2000 && lives_lost < 4; ++t) {
      a.env->save(before);
      const std::int64_t action = actions.next(a.actions());
      if (!a.step(action).life_lost) continue;
      ++lives_lost;
      for (int i = 0; i < 5; ++i) b.step(2);  // moves its paddle elsewhere
      b.env->load(before);
      b.step(action);
      EXPECT_EQ(a.observation, b.observation) << t << (rgb ? " in colour" : "");
    }
    EXPECT_EQ(lives_lost, 4);
  }
}

TEST(AtariTest, WorksInAForkedChild) {
  const auto factory = make_atari("ALE/Pong-v5", kPlain);
  const pid_t child = fork();
  if (child == 0) {
    alarm(30);
    EnvPlayer player(factory);
    player.reset(1);
    _exit(player.step(0).terminated ? 1 : 0);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}

#ifdef SHOAL_COUNT_ALLOCATIONS
TEST(AtariTest, AStepAllocatesNothing) {
  for (const auto& [id, rgb] : {std::pair{"ALE/Pong-v5", false},
                                {"ALE/Seaquest-v5", true},
                                {"ALE/Seaquest-v5", false},
                                {"ALE/Adventure-v5", true}}) {
    EnvPlayer player(
        make_atari(id, {.fire_on_reset = true, .episodic_life = true, .sticky = 0.25, .rgb = rgb}));
    player.reset(1);
    OracleActions actions;
    const long before = allocations();
    ASSERT_GT(before, 0) << "the hook is not in place";
    for (int t = 0; t < 300; ++t) player.step(actions.next(player.actions()));
    EXPECT_EQ(allocations(), before) << id << (rgb ? " in colour" : "");
  }
}
#endif

TEST(AtariTest, RendersInColour) {
  EnvPlayer player(make_atari("ALE/Breakout-v5", kPlain));
  player.reset(1);
  Image image;
  ASSERT_TRUE(player.env->render(image));
  EXPECT_EQ(image.height, 210);
  EXPECT_EQ(image.width, 160);
  const std::uint8_t* brick = &image.rgb[3 * (60 * 160 + 80)];
  EXPECT_GT(brick[0], brick[2]) << "the top row of bricks is red";
}

}  // namespace
}  // namespace shoal
