#include "shoal/ipc/rank_exchange.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <exception>
#include <functional>
#include <latch>
#include <string>
#include <thread>
#include <vector>

#include "shoal/core/error.h"
#include "shoal/core/rng.h"
#include "src/core/cpu_features.h"

namespace shoal {
namespace {

using namespace std::chrono_literals;

// Threads stand in for processes.
class Exchange {
 public:
  explicit Exchange(const RankExchangeOptions& options)
      : memory_(RankExchange::bytes(options) / 64 + 1), exchange_(memory_[0].data(), options) {}

  // Returns each rank's exception text, or "".
  std::vector<std::string> run(const std::function<void(RankExchange&)>& body) {
    std::vector<std::string> said(static_cast<std::size_t>(exchange_.ranks()));
    {
      std::vector<std::jthread> threads;
      for (int r = 0; r < exchange_.ranks(); ++r)
        threads.emplace_back([&, r] {
          auto own = exchange_.of(r);
          try {
            body(own);
          } catch (const RankError& e) {
            said[static_cast<std::size_t>(r)] = e.what();
          }
        });
    }
    return said;
  }
  RankExchange& any() { return exchange_; }

 private:
  struct alignas(64) Line : std::array<std::byte, 64> {};
  std::vector<Line> memory_;
  RankExchange exchange_;
};

// Element i of rank r's array number k.
float number(int r, int k, std::size_t i) {
  return static_cast<float>(Rng(static_cast<std::uint64_t>(r * 1000 + k)).integer(0, 1000)) *
             0.37F +
         static_cast<float>(i) * 0.11F / static_cast<float>(r + 1);
}

TEST(RankExchangeTest, SumsInTheOrderOfTheRanks) {
  for (const int ranks : {1, 2, 3, 5})
    for (const std::size_t chunk : {64U, 1024U}) {
      Exchange e({.ranks = ranks, .spin = 20, .chunk = chunk});
      std::vector<int> wrong(static_cast<std::size_t>(ranks));
      const auto said = e.run([&](RankExchange& own) {
        int k = 0;
        for (const std::size_t n : {0U, 1U, 15U, 16U, 17U, 33U, 256U, 257U, 1000U, 5003U}) {
          std::vector<float> values(n);
          for (std::size_t i = 0; i < n; ++i) values[i] = number(own.rank(), k, i);
          own.sum(values);
          for (std::size_t i = 0; i < n; ++i) {
            float expected = number(0, k, i);
            for (int r = 1; r < ranks; ++r) expected += number(r, k, i);
            wrong[static_cast<std::size_t>(own.rank())] += values[i] != expected;
          }
          ++k;
        }
      });
      for (const auto& text : said) EXPECT_EQ(text, "");
      for (const int count : wrong) EXPECT_EQ(count, 0) << ranks << " ranks, chunk " << chunk;
    }
}

// Alternates all collectives, with random delays: the two buffers of a chunk must not be
// overwritten before all ranks have read them.
TEST(RankExchangeTest, ActsFollowOneAnotherWithoutDelay) {
  constexpr int kRanks = 3, kRounds = 3000;
  Exchange e({.ranks = kRanks, .spin = 0, .chunk = 128});
  const auto said = e.run([&](RankExchange& own) {
    Rng shared(7), delay(static_cast<std::uint64_t>(own.rank()) + 20);
    const auto r = own.rank();
    for (int k = 0; k < kRounds; ++k) {
      const auto n = static_cast<std::size_t>(shared.integer(1, 120));
      for (auto spins = delay.integer(0, 300); spins > 0; --spins) pause_core();
      switch (shared.integer(0, 4)) {
        case 0: {
          std::vector<std::int64_t> values(n, k + r);
          own.sum(values);
          ASSERT_EQ(values, std::vector<std::int64_t>(n, 3 * k + 3)) << "round " << k;
          break;
        }
        case 1: {
          std::vector<double> values(n, k + r);
          own.sum(values);
          ASSERT_EQ(values, std::vector<double>(n, 3 * k + 3)) << "round " << k;
          break;
        }
        case 2: {
          std::vector<std::byte> given(n, static_cast<std::byte>(k + r)), all(n * kRanks);
          own.gather(given, all);
          for (std::size_t i = 0; i < all.size(); ++i)
            ASSERT_EQ(all[i], static_cast<std::byte>(k + static_cast<int>(i / n)));
          break;
        }
        case 3: {
          std::vector<std::byte> bytes(n, static_cast<std::byte>(k + r));
          own.broadcast(bytes);
          ASSERT_EQ(bytes, std::vector<std::byte>(n, static_cast<std::byte>(k)));
          break;
        }
        default:
          own.barrier();
      }
    }
  });
  for (const auto& text : said) EXPECT_EQ(text, "");
}

TEST(RankExchangeTest, NobodyLeavesABarrierBeforeAllHaveCome) {
  constexpr int kRanks = 4;
  Exchange e({.ranks = kRanks, .spin = 10});
  std::atomic<int> come{0};
  std::atomic<int> early{0};
  e.run([&](RankExchange& own) {
    for (int k = 1; k <= 500; ++k) {
      ++come;
      own.barrier();
      if (come < kRanks * k) ++early;
    }
  });
  EXPECT_EQ(early, 0);
}

TEST(RankExchangeTest, WhoDoesSomethingElseIsNamed) {
  Exchange e({.ranks = 2, .timeout = 5s});
  const auto said = e.run([&](RankExchange& own) {
    std::vector<float> values(own.rank() == 0 ? 40 : 44);
    own.sum(values);
  });
  EXPECT_NE(said[0].find("rank 1 sums (176 bytes"), std::string::npos) << said[0];
  EXPECT_NE(said[1].find("rank 0 sums (160 bytes"), std::string::npos) << said[1];

  Exchange other({.ranks = 2, .timeout = 5s});
  const auto kinds = other.run([&](RankExchange& own) {
    std::vector<float> values(1);
    if (own.rank() == 0)
      own.sum(values);
    else
      own.barrier();
  });
  EXPECT_NE(kinds[0].find("rank 1 enters a barrier"), std::string::npos) << kinds[0];
  EXPECT_NE(kinds[1].find("rank 0 sums (4 bytes"), std::string::npos) << kinds[1];
}

TEST(RankExchangeTest, WhoDoesNotComeIsNamed) {
  Exchange e({.ranks = 3, .timeout = 1s});
  std::latch both(2);  // or 0 might wait for 1
  const auto said = e.run([&](RankExchange& own) {
    if (own.rank() == 2) return;
    both.arrive_and_wait();
    own.barrier();
  });
  for (const int r : {0, 1})
    EXPECT_NE(said[static_cast<std::size_t>(r)].find("waits for rank 2"), std::string::npos);
}

TEST(RankExchangeTest, StopEndsEveryWait) {
  Exchange e({.ranks = 3, .spin = 0, .timeout = 60s});
  const auto before = std::chrono::steady_clock::now();
  const auto said = e.run([&](RankExchange& own) {
    if (own.rank() == 1)
      own.stop();
    else
      own.barrier();
  });
  EXPECT_LT(std::chrono::steady_clock::now() - before, 5s);
  EXPECT_NE(said[0].find("has stopped"), std::string::npos) << said[0];
  EXPECT_NE(said[2].find("has stopped"), std::string::npos) << said[2];
}

TEST(RankExchangeTest, RefusesWhatMakesNoSense) {
  EXPECT_THROW(RankExchange::bytes({.ranks = 0}), Error);
  EXPECT_THROW(RankExchange::bytes({.chunk = 0}), Error);
  Exchange e({.ranks = 2});
  EXPECT_THROW((void)e.any().of(2), Error);
  std::vector<std::byte> one(1), three(3);
  EXPECT_THROW(e.any().gather(one, three), Error);
}

}  // namespace
}  // namespace shoal
