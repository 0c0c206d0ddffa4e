#include "shoal/core/arena.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>

#include "shoal/core/error.h"
#include "tests/support/message_of.h"

namespace shoal {
namespace {

constexpr auto kHuge = std::numeric_limits<std::int64_t>::max();

TEST(ArenaTest, FieldsStartOnCacheLinesAndDoNotOverlap) {
  Arena::Plan plan;
  const auto a = plan.add({3, 5}, {DType::kUInt8, {7}});
  const auto b = plan.add({3, 5}, {DType::kFloat32, {}});
  const auto c = plan.add_bytes(1);
  const auto d = plan.add_bytes(1);
  EXPECT_EQ(a.elements(), 15);
  EXPECT_EQ(a.bytes(), 105u);
  EXPECT_EQ(a.offset, 0u);
  EXPECT_EQ(b.offset, 128u);
  EXPECT_EQ(c.offset, 192u);
  EXPECT_EQ(d.offset, 256u);
  EXPECT_EQ(plan.bytes(), 320u);
  const Arena arena(plan);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(arena.data(b)) % 64, 0u);
  EXPECT_EQ(arena.element(a, 4).data(), arena.data(a) + 28);
  EXPECT_EQ(arena.element(a, 4).size(), 7u);
}

TEST(ArenaTest, RefusesNegativeAndOverflowingShapes) {
  Arena::Plan plan;
  const auto negative = message_of([&] { plan.add({4, -2}, {DType::kInt32, {3}}); });
  EXPECT_NE(negative.find("int32 array of shape [4, -2, 3]"), std::string::npos) << negative;
  EXPECT_NE(message_of([&] { plan.add({kHuge}, {DType::kFloat64, {}}); }), "");
  EXPECT_NE(message_of([&] {
              plan.add({kHuge}, {DType::kUInt8, {}});
            }),
            "");  // only with its padding
  EXPECT_NE(message_of([&] { plan.add({1L << 40}, {DType::kUInt8, {1L << 40}}); }), "");
  EXPECT_NE(message_of([&] { plan.add({0, 1L << 40}, {DType::kUInt8, {1L << 40}}); }), "");
  EXPECT_EQ(plan.bytes(), 0u) << "a refused field must leave no trace";
  plan.add({kHuge / 2}, {DType::kUInt8, {}});
  EXPECT_NE(message_of([&] {
              plan.add({kHuge / 2}, {DType::kUInt8, {}});
              plan.add({kHuge / 2}, {DType::kUInt8, {}});
            }),
            "");
}

TEST(ArenaTest, MoreThanThereIsIsAnErrorWithBothNumbers) {
  Arena::Plan plan;
  plan.add({1L << 20, 1L << 20}, {DType::kFloat32, {}});
  const auto text = message_of([&] { Arena{plan}; });
  EXPECT_NE(text.find("4.4 TB is needed"), std::string::npos) << text;
  EXPECT_NE(text.find("B is available"), std::string::npos) << text;
  EXPECT_NE(text.find("number of environments"), std::string::npos) << text;
}

TEST(ArenaTest, AnEmptyPlanWorks) {
  Arena::Plan plan;
  const auto nothing = plan.add({0, 4}, {DType::kFloat32, {2}});
  const Arena arena(plan);
  EXPECT_EQ(arena.memory().size(), 0u);
  EXPECT_NE(arena.data(nothing), nullptr);
}

TEST(ArenaTest, FreshMemoryIsMagicInDebugBuildsAndZeroOtherwise) {
#ifdef NDEBUG
  const std::byte expected{0};
#else
  const std::byte expected = Arena::kMagic;
#endif
  Arena::Plan plan;
  const auto field = plan.add_bytes(10'000);
  const Arena arena(plan);
  const auto bytes = arena.element(field, 0);
  EXPECT_TRUE(std::ranges::all_of(bytes, [=](std::byte b) { return b == expected; }));
}

TEST(ArenaTest, IsSharedOverForkInBothDirections) {
  Arena::Plan plan;
  const auto field = plan.add({2}, {DType::kInt32, {}});
  const Arena arena(plan);
  auto* words = reinterpret_cast<std::int32_t*>(arena.data(field));
  words[0] = 20;
  words[1] = 0;
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    words[1] = words[0] + 1;
    _exit(0);
  }
  ASSERT_EQ(waitpid(child, nullptr, 0), child);
  EXPECT_EQ(words[1], 21);
}

// Both processes map the file after the fork; neither descends from a process that had mapped it.
TEST(SharedFileTest, IsSharedByThoseThatMapItAfterTheFork) {
  const SharedFile file;
  Arena::Plan plan;
  const auto field = plan.add({1L << 20}, {DType::kInt32, {}});
  const auto words = [&](const Arena& arena) {
    return reinterpret_cast<std::int32_t*>(arena.data(field));
  };
  std::array<int, 2> made{};
  ASSERT_EQ(pipe(made.data()), 0);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    char go = 0;
    if (read(made[0], &go, 1) != 1) _exit(1);
    const Arena arena(plan, file, /*first=*/false);
    words(arena)[1] = words(arena)[0] + 1;
    words(arena)[(1 << 20) - 1] = 5;
    _exit(0);
  }
  const Arena arena(plan, file, /*first=*/true);
  words(arena)[0] = 20;
  words(arena)[1] = 0;
  ASSERT_EQ(write(made[1], "", 1), 1);
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(words(arena)[0], 20);
  EXPECT_EQ(words(arena)[1], 21);
  EXPECT_EQ(words(arena)[(1 << 20) - 1], 5);
  for (const int end : made) close(end);
}

// Final observations reserve many times the memory they ever use.
TEST(SharedFileTest, TakesPagesWhenTheyAreTouched) {
  const SharedFile file;
  const auto memory = file.map(std::size_t{1} << 40);
  memory.get()[(std::size_t{1} << 40) - 1] = std::byte{1};
  EXPECT_EQ(file.map(std::size_t{1} << 40).get()[(std::size_t{1} << 40) - 1], std::byte{1});
}

TEST(SharedFileTest, MoreThanThereIsIsAnErrorOfTheFirst) {
  const SharedFile file;
  Arena::Plan plan;
  plan.add({1L << 20, 1L << 20}, {DType::kFloat32, {}});
  EXPECT_NE(message_of([&] { Arena(plan, file, true); }).find("4.4 TB is needed"),
            std::string::npos);
}

TEST(ArenaTest, OwnerKeepsTheMappingAlive) {
  std::shared_ptr<void> owner;
  std::byte* bytes = nullptr;
  {
    Arena::Plan plan;
    const auto field = plan.add_bytes(4096);
    const Arena arena(plan);
    owner = arena.owner();
    bytes = arena.data(field);
  }
  std::memset(bytes, 1, 4096);  // crashes if the mapping is gone
  EXPECT_EQ(owner.use_count(), 1);
}

}  // namespace
}  // namespace shoal
