#include "shoal/ipc/parameter_board.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <thread>
#include <vector>

#include "shoal/core/error.h"

namespace shoal {
namespace {

struct Board {
  explicit Board(std::size_t payload)
      : memory(ParameterBoard::bytes(payload) / 64 + 1), board(memory[0].data(), payload) {}
  struct alignas(64) Line : std::array<std::byte, 64> {};
  std::vector<Line> memory;
  ParameterBoard board;
};

std::vector<std::byte> filled(std::size_t n, int value) {
  return std::vector<std::byte>(n, static_cast<std::byte>(value));
}

TEST(ParameterBoardTest, ReadsWhatIsNewerAndNothingElse) {
  for (const std::size_t payload : {1U, 7U, 8U, 9U, 64U, 1001U}) {
    Board b(payload);
    auto to = filled(payload, 1);
    std::uint64_t version = 0;
    EXPECT_FALSE(b.board.read(to, version)) << "nothing has been published";
    b.board.publish(filled(payload, 5));
    EXPECT_TRUE(b.board.read(to, version));
    b.board.publish(filled(payload, 5));
    EXPECT_FALSE(b.board.read(to, version)) << "they are the same";
    EXPECT_EQ(to, filled(payload, 5));
    EXPECT_FALSE(b.board.read(to, version)) << "read already";
    b.board.publish(filled(payload, 6));
    b.board.publish(filled(payload, 7));
    EXPECT_TRUE(b.board.read(to, version));
    EXPECT_EQ(to, filled(payload, 7));
  }
}

TEST(ParameterBoardTest, RefusesOtherSizes) {
  Board b(8);
  auto wrong = filled(9, 0);
  std::uint64_t version = 0;
  EXPECT_THROW(b.board.publish(wrong), Error);
  EXPECT_THROW(b.board.read(wrong, version), Error);
}

// Threads stand in for processes.
TEST(ParameterBoardTest, NoReaderSeesHalfOfAVersion) {
  constexpr std::size_t kPayload = 4000;
  constexpr int kVersions = 2000;
  Board b(kPayload);
  std::atomic<bool> done{false};
  std::array<int, 2> torn{}, read{};
  {
    std::vector<std::jthread> readers;
    for (std::size_t r = 0; r < torn.size(); ++r)
      readers.emplace_back([&, r] {
        auto to = filled(kPayload, 0);
        std::uint64_t version = 0;
        for (bool last = false; !last;) {
          last = done;
          if (!b.board.read(to, version)) continue;
          ++read[r];
          if (std::ranges::count(to, to[0]) != static_cast<std::ptrdiff_t>(kPayload)) ++torn[r];
          if (version == 2 * kVersions) {
            EXPECT_EQ(to, filled(kPayload, kVersions % 251));
          }
        }
      });
    for (int v = 1; v <= kVersions; ++v) b.board.publish(filled(kPayload, v % 251));
    done = true;
  }
  for (std::size_t r = 0; r < torn.size(); ++r) {
    EXPECT_EQ(torn[r], 0);
    EXPECT_GT(read[r], 0);
  }
}

}  // namespace
}  // namespace shoal
