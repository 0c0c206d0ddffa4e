#include "shoal/core/arena.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
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
            "");  // only by its padding
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
  EXPECT_NE(text.find("4096.0 GiB is wanted"), std::string::npos) << text;
  EXPECT_NE(text.find("iB is available"), std::string::npos) << text;
  EXPECT_NE(text.find("number of environments"), std::string::npos) << text;
}

TEST(ArenaTest, AnEmptyPlanWorks) {
  Arena::Plan plan;
  const auto nothing = plan.add({0, 4}, {DType::kFloat32, {2}});
  const Arena arena(plan);
  EXPECT_EQ(arena.bytes(), 0u);
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
  std::memset(bytes, 1, 4096);  // a fault if it is gone
  EXPECT_EQ(owner.use_count(), 1);
}

}  // namespace
}  // namespace shoal
