// The console with this project's processor and video chip beside ALE's own: reward, lives, end,
// RAM and screen after every frame, and the whole state now and then.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <latch>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "plugins/ale/packed_frame.h"
#include "shoal/core/rng.h"
#include "src/envs/atari/ale_library.h"

namespace shoal {
namespace {

class Console {
 public:
  Console(AtariEmulator emulator, const std::string& rom)
      : ale_(ale_library(emulator)), console_(open_console(ale_, rom_folder() / (rom + ".bin"))) {
    ale_.screen_size(console_.get(), &height_, &width_);
  }

  std::vector<int> actions() {
    std::vector<int> codes(SHOAL_ALE_MAX_ACTIONS);
    codes.resize(static_cast<std::size_t>(ale_.actions(console_.get(), 1, codes.data())));
    return codes;
  }
  void reset() { last_ = ale_.reset(console_.get()); }
  void act(int action) { last_ = ale_.act(console_.get(), action); }
  bool is_over() const { return last_.game_over != 0; }

  std::vector<std::uint8_t> state() {
    std::vector<std::uint8_t> bytes(1 << 20);
    bytes.resize(ale_.save(console_.get(), bytes.data(), bytes.size()));
    return bytes;
  }
  void load(const std::vector<std::uint8_t>& state) {
    ASSERT_NE(ale_.load(console_.get(), state.data(), state.size()), 0);
  }

  // Empty if the last frame of both was the same.
  std::string difference(Console& other) {
    if (last_.reward != other.last_.reward)
      return fmt::format("reward {} and {}", last_.reward, other.last_.reward);
    if (last_.lives != other.last_.lives || last_.game_over != other.last_.game_over)
      return "lives or end";
    const auto mine = ram(), theirs = other.ram();
    for (std::size_t i = 0; i < mine.size(); ++i)
      if (mine[i] != theirs[i]) return fmt::format("RAM at {}: {} and {}", i, mine[i], theirs[i]);
    const auto *a = ale_.screen(console_.get()), *b = other.ale_.screen(other.console_.get());
    const auto pixels = height_ * width_;
    const auto at = std::mismatch(a, a + pixels, b).first - a;
    return at == pixels ? "" : fmt::format("screen at line {}, pixel {}", at / width_, at % width_);
  }

 private:
  std::array<std::uint8_t, SHOAL_ALE_RAM_BYTES> ram() {
    std::array<std::uint8_t, SHOAL_ALE_RAM_BYTES> bytes{};
    ale_.ram(console_.get(), bytes.data());
    return bytes;
  }

  const shoal_ale_api& ale_;
  AleConsole console_;
  shoal_ale_frame last_{};
  int height_ = 0, width_ = 0;
};

std::int64_t frames() {
  const char* chosen = std::getenv("SHOAL_EMULATOR_FRAMES");
  return chosen == nullptr ? 600 : std::atoll(chosen);
}

// Random actions, each held for a while; resets at the end of a game and in its middle; states that
// are saved by one and loaded by the other.
void compare(const std::string& rom, std::int64_t n) {
  Console own(AtariEmulator::kShoal, rom), ale(AtariEmulator::kAle, rom);
  const auto actions = own.actions();
  Rng rng(7);
  const auto draw = [&](std::int64_t choices) { return rng.integer(0, choices); };
  own.reset();
  ale.reset();
  std::vector<std::uint8_t> saved;
  int action = 0;
  for (std::int64_t frame = 0, held = 0; frame < n; ++frame) {
    if (held-- <= 0) {
      action = actions[static_cast<std::size_t>(draw(std::ssize(actions)))];
      held = draw(12);
    }
    if (own.is_over() || draw(5000) == 0) {
      own.reset();
      ale.reset();
    }
    own.act(action);
    ale.act(action);
    ASSERT_EQ(own.difference(ale), "") << rom << ", frame " << frame;
    if (draw(100) != 0) continue;
    const auto mine = own.state(), theirs = ale.state();
    ASSERT_TRUE(mine == theirs) << "saved state of " << rom << ", frame " << frame;
    if (saved.empty() || draw(2) == 0) saved = mine;
    const bool crossed = draw(2) == 0;
    own.load(crossed ? theirs : saved);
    ale.load(crossed ? mine : saved);
  }
}

// Runs `act` in a child process, and returns what it returns; -1 if that failed.
int fork_and_wait(int (*act)()) {
  const auto child = fork();
  if (child == 0) std::_Exit(act());
  int status = 0;
  return waitpid(child, &status, 0) == child && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

constexpr int kLots = 8;
class AtariEmulatorTest : public testing::TestWithParam<int> {};

TEST_P(AtariEmulatorTest, EqualsAle) {
  const auto roms = known_roms();
  for (std::size_t i = static_cast<std::size_t>(GetParam()); i < roms.size(); i += kLots)
    compare(roms[i], frames());
}

INSTANTIATE_TEST_SUITE_P(Games, AtariEmulatorTest, testing::Range(0, kLots));

// A state may say that the program goes on anywhere: at the end of the cartridge, where an
// instruction goes on at address zero, or in the RAM.
TEST(AtariEmulatorTest, GoesOnAnywhere) {
  for (const char* rom : {"pong", "breakout", "ms_pacman", "montezuma_revenge"}) {
    for (const int pc : {0xffff, 0xfffe, 0xfffd, 0xf3ff, 0xf7fe, 0xfbfd, 0x0080, 0x00ff, 0x1fff}) {
      Console own(AtariEmulator::kShoal, rom), ale(AtariEmulator::kAle, rom);
      own.reset();
      ale.reset();
      for (int frame = 0; frame < 20; ++frame) own.act(0), ale.act(0);
      auto state = own.state();
      const std::string name = "M6502Low", text(state.begin(), state.end());
      const auto at = text.find(name);
      ASSERT_NE(at, std::string::npos);
      const auto place = at + name.size() + 5 * sizeof(std::int32_t);  // behind A, X, Y, SP and IR
      const std::int32_t value = pc;
      std::memcpy(state.data() + place, &value, sizeof value);
      own.load(state);
      ale.load(state);
      for (int frame = 0; frame < 10; ++frame) {
        own.act(frame % 3);
        ale.act(frame % 3);
        ASSERT_EQ(own.difference(ale), "") << rom << ", from " << pc << ", frame " << frame;
      }
    }
  }
}

// A process that may not execute what it has written interprets the programs.
TEST(AtariEmulatorDeathTest, EqualsAleWhereCodeMayNotBeWritten) {
  constexpr unsigned kSetDenyWriteExecute = 65, kRefuseExecGain = 1;  // of Linux 6.3
  if (fork_and_wait([] { return prctl(kSetDenyWriteExecute, kRefuseExecGain, 0, 0, 0); }) != 0)
    GTEST_SKIP() << "this kernel cannot deny it";
  testing::FLAGS_gtest_death_test_style = "threadsafe";  // code has not been written yet
  const auto play = [] {
    prctl(kSetDenyWriteExecute, kRefuseExecGain, 0, 0, 0);
    const auto* const memory =
        mmap(nullptr, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (const char* rom : {"pong", "ms_pacman"}) compare(rom, 300);
    std::_Exit(memory == MAP_FAILED && !testing::Test::HasFailure() ? 0 : 1);
  };
  EXPECT_EXIT(play(), testing::ExitedWithCode(0), "");
}

// Threads share nothing but the cartridges and the code that was written for them, and a process
// may end while others still run.
TEST(AtariEmulatorDeathTest, ThreadsOpenOneGameAndTheProcessEnds) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";  // nothing has been opened yet
  const auto play = [] {
    constexpr std::size_t kThreads = 8;
    std::array<std::vector<std::uint8_t>, kThreads> states;
    std::latch opened(kThreads), played(kThreads + 1);
    std::vector<std::thread> threads;
    for (std::size_t i = 0; i < kThreads; ++i)
      threads.emplace_back([&, i] {
        opened.arrive_and_wait();
        Console own(AtariEmulator::kShoal, "breakout");
        own.reset();
        for (int frame = 0; frame < 200; ++frame) own.act(frame / 3 % 4);
        states[i] = own.state();
        played.arrive_and_wait();
        for (;;) own.act(0);
      });
    played.arrive_and_wait();
    const bool same =
        std::ranges::all_of(states, [&](const auto& state) { return state == states[0]; });
    std::exit(same && !states[0].empty() ? 0 : 1);
  };
  EXPECT_EXIT(play(), testing::ExitedWithCode(0), "");
}

TEST(AtariEmulatorTest, PackedFramesAreTheFramesAndPartsOfThemAreRefused) {
  Rng rng(1);
  for (const std::int64_t colours : {1, 2, 200}) {
    std::vector<std::uint8_t> frame(10 * kLine), found(frame.size());
    for (auto& pixel : frame) pixel = static_cast<std::uint8_t>(rng.integer(0, colours));
    std::copy_n(frame.begin(), kLine, frame.begin() + kLine);  // a line twice
    std::string packed;
    pack(frame, packed);
    const auto unpacked = [&](const std::string& text) {
      std::span<const std::uint8_t> rest(reinterpret_cast<const std::uint8_t*>(text.data()),
                                         text.size());
      unpack(rest, found);
      return rest.size();
    };
    EXPECT_EQ(unpacked(packed + "more"), 4);
    EXPECT_EQ(found, frame);
    for (std::size_t size = 0; size < packed.size(); ++size)
      EXPECT_THROW(unpacked(packed.substr(0, size)), std::runtime_error) << size;
    // A run that is too long, and one that is too short for its line.
    for (const int change : {1, -1}) {
      auto wrong = packed;
      const auto runs = static_cast<std::size_t>(static_cast<std::uint8_t>(packed[0]));
      if (runs == 0) continue;  // the line is that above it
      wrong[2 * runs - 1] = static_cast<char>(wrong[2 * runs - 1] + change);
      EXPECT_THROW(unpacked(wrong), std::runtime_error) << change;
    }
  }
}

TEST(AtariEmulatorTest, RefusesAnInvalidState) {
  Console own(AtariEmulator::kShoal, "pong");
  own.reset();
  const auto& ale = ale_library(AtariEmulator::kShoal);
  const auto console = open_console(ale, rom_folder() / "pong.bin");
  for (const std::size_t at : {0U, 4U, 8U, 12U, 16U, 20U, 24U}) {
    auto state = own.state();
    const std::int32_t wrong = 1 << 30;
    std::memcpy(state.data() + at, &wrong, sizeof wrong);
    EXPECT_EQ(ale.load(console.get(), state.data(), state.size()), 0) << at;
  }
  EXPECT_EQ(ale.load(console.get(), nullptr, 0), 0);
  // Registers of the video chip, and the place in the picture, that would lead out of a line or
  // frame.
  const auto good = own.state();
  const std::string text(good.begin(), good.end());
  const auto chip = text.find("TIA");
  ASSERT_NE(chip, std::string::npos);
  int refused = 0;
  for (std::size_t at = chip + 3; at + 4 <= good.size() && at < chip + 220; ++at) {
    auto state = good;
    const std::int32_t wrong = -1;
    std::memcpy(state.data() + at, &wrong, sizeof wrong);
    if (ale.load(console.get(), state.data(), state.size()) == 0) {
      ++refused;
      continue;
    }
    for (int frame = 0; frame < 3; ++frame) ale.act(console.get(), 0);
  }
  EXPECT_GT(refused, 20);
}

}  // namespace
}  // namespace shoal
