#include <ATen/ATen.h>
#include <arpa/inet.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>
#include <latch>
#include <mutex>
#include <string>
#include <vector>

#include "shoal/core/rank_exchange.h"
#include "shoal/sync/ranks.h"
#include "tests/sync/meeting_place.h"

namespace shoal {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

at::Tensor numbers_of(int rank, std::int64_t n, at::ScalarType type) {
  return at::arange(n, at::kDouble).mul(0.37).add(rank * 0.11).sin().mul(1000).to(type);
}

// 8192 float32 are the most that is sent whole.
TEST(TcpRanksTest, SumsToTheSameBitsInAll) {
  for (const int count : {1, 2, 3, 4}) {
    const testing::MeetingPlace place;
    const std::vector<std::int64_t> sizes = {0, 1, 2, 3, 1000, 8191, 8192, 8193, 8195, 300'001};
    std::vector<std::vector<at::Tensor>> got(static_cast<std::size_t>(count));
    const auto said = testing::in_threads(count, [&](int r) {
      const auto ranks = make_tcp_ranks(place.options(r, count));
      for (const auto n : sizes)
        for (const auto type : {at::kFloat, at::kDouble, at::kLong}) {
          auto x = numbers_of(r, n, type);
          ranks->sum(x);
          got[static_cast<std::size_t>(r)].push_back(x);
        }
    });
    EXPECT_THAT(said, Each(IsEmpty()));
    std::size_t k = 0;
    for (const auto n : sizes)
      for (const auto type : {at::kFloat, at::kDouble, at::kLong}) {
        auto expected = at::zeros({n}, type == at::kLong ? at::kLong : at::kDouble);
        for (int r = 0; r < count; ++r) expected += numbers_of(r, n, type);
        EXPECT_TRUE(at::allclose(got[0][k].to(at::kDouble), expected.to(at::kDouble), 1e-6, 1e-3))
            << n << " numbers, " << count << " ranks";
        for (const auto& of_rank : got) EXPECT_TRUE(of_rank[k].equal(got[0][k]));
        ++k;
      }
  }
}

TEST(TcpRanksTest, GathersWhatEachGivesInTheOrderOfTheRanks) {
  constexpr int kCount = 3;
  const testing::MeetingPlace place;
  const auto of = [](int rank, int turn) {
    const auto n = static_cast<std::size_t>(turn == 0 ? rank : 100'000 * rank * turn);
    return std::vector<std::byte>(n, static_cast<std::byte>(rank + turn));
  };
  const auto said = testing::in_threads(kCount, [&](int r) {
    const auto ranks = make_tcp_ranks(place.options(r, kCount));
    for (int turn = 0; turn < 3; ++turn) {
      const auto all = ranks->gather(of(r, turn));
      for (int other = 0; other < kCount; ++other)
        if (all[static_cast<std::size_t>(other)] != of(other, turn))
          throw std::runtime_error("wrong bytes");
    }
  });
  EXPECT_THAT(said, Each(IsEmpty()));
}

TEST(TcpRanksTest, RankZeroOpensTheStoreIfThereIsNone) {
  const int fd = socket(AF_INET, SOCK_STREAM, 0);  // finds a port that is free
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  auto* const any = reinterpret_cast<sockaddr*>(&address);
  ASSERT_EQ(bind(fd, any, size), 0);
  ASSERT_EQ(getsockname(fd, any, &size), 0);
  close(fd);
  const auto said = testing::in_threads(2, [&](int r) {
    const auto ranks =
        make_tcp_ranks({.rank = r, .count = 2, .port = ntohs(address.sin_port), .timeout = 20s});
    auto x = at::full({1}, r + 1, at::kLong);
    ranks->sum(x);
    if (x.item<std::int64_t>() != 3) throw std::runtime_error("wrong sum");
  });
  EXPECT_THAT(said, Each(IsEmpty()));
}

TEST(TcpRanksTest, NamesWhoDoesSomethingElse) {
  const testing::MeetingPlace place;
  const auto said = testing::in_threads(3, [&](int r) {
    const auto ranks = make_tcp_ranks(place.options(r, 3));
    auto x = at::zeros({r == 1 ? 5 : 4});
    ranks->sum(x);
  });
  // Whoever finds out closes its ends, which its neighbours may see first.
  EXPECT_THAT(said, Each(AnyOf(HasSubstr("must do the same"), HasSubstr("has closed"))));
  const auto named = [](int other, int theirs, int own) {
    return HasSubstr(
        fmt::format("process {} of 3 sums ({} bytes, as its number 0), this one sums ({} bytes",
                    other, theirs, own));
  };
  EXPECT_THAT(said, ::testing::Contains(AnyOf(named(1, 20, 16), named(0, 16, 20))));
}

TEST(TcpRanksTest, NamesWhoIsGoneAndWhoDoesNotCome) {
  const testing::MeetingPlace place;
  std::latch all_over(2);
  const auto said = testing::in_threads(3, [&](int r) {
    auto options = place.options(r, 3);
    options.timeout = 2s;
    auto ranks = make_tcp_ranks(options);
    auto x = at::ones({4});
    ranks->sum(x);
    if (r == 1) {  // neither goes on nor closes its ends
      all_over.wait();
      return;
    }
    try {
      ranks->sum(x);
    } catch (...) {
      if (r == 2) ranks.reset();
      all_over.count_down();
      throw;
    }
  });
  EXPECT_EQ(said[1], "");
  EXPECT_THAT(said[2], AllOf(HasSubstr("process 1 of 3 has not come for 2.0 s"),
                             HasSubstr("raise the timeout")));
  EXPECT_THAT(said[0], AnyOf(HasSubstr("process 2 of 3 has closed its connection"),
                             HasSubstr("process 2 of 3 has not come")));

  const testing::MeetingPlace other;
  const auto gone = testing::in_threads(2, [&](int r) {
    const auto ranks = make_tcp_ranks(other.options(r, 2));
    auto x = at::ones({4});
    ranks->sum(x);
    if (r == 1) return;  // and closes its ends
    ranks->sum(x);
  });
  EXPECT_THAT(gone[0], HasSubstr("process 1 of 2 has closed its connection"));
}

TEST(TcpRanksTest, SaysWhoIsMissingAtTheMeeting) {
  testing::MeetingPlace place;
  const auto said = testing::in_threads(1, [&](int r) {
    auto options = place.options(r, 2);
    options.timeout = 1s;
    auto x = at::ones({4});
    make_tcp_ranks(options)->sum(x);
  });
  EXPECT_THAT(said[0], HasSubstr("process 1 of 2 has not come to meet the others"));
}

// Connects to where rank 0 waits, as soon as that is known.
int visit_first(testing::MeetingPlace& place) {
  const auto known = place.store().get_to_str("shoal/first");
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<std::uint16_t>(std::stoi(known)));
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  if (connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0)
    throw std::runtime_error("not connected");
  return fd;
}

void sum_of_two(const TcpRanksOptions& options) {
  auto x = at::ones({4});
  make_tcp_ranks(options)->sum(x);
  if (!x.equal(at::full({4}, 2.0))) throw std::runtime_error("wrong sum");
}

TEST(TcpRanksTest, SendsStrangersAway) {
  testing::MeetingPlace place;
  int stranger = -1;
  const auto said = testing::in_threads(2, [&](int r) {
    if (r == 1) {
      stranger = visit_first(place);
      const std::vector<char> nonsense(100, 1);
      if (send(stranger, nonsense.data(), nonsense.size(), MSG_NOSIGNAL) != 100)
        throw std::runtime_error("not sent");
    }
    sum_of_two(place.options(r, 2));
  });
  EXPECT_THAT(said, Each(IsEmpty()));
  close(stranger);
}

// A launcher's store outlives the processes it starts again.
TEST(TcpRanksTest, WhatEarlierProcessesHaveLeftInTheStoreMisleadsNobody) {
  testing::MeetingPlace place;
  for (int attempt = 0; attempt < 3; ++attempt) {
    const auto said = testing::in_threads(2, [&](int r) {
      // The second one finds where the first one was last time.
      if (attempt > 0 && r == 0) std::this_thread::sleep_for(200ms);
      sum_of_two(place.options(r, 2));
    });
    EXPECT_THAT(said, Each(IsEmpty()));
  }
}

TEST(TcpRanksTest, AnotherJobIsToldSo) {
  testing::MeetingPlace place;
  std::latch told(2);
  const auto said = testing::in_threads(4, [&](int r) {
    auto options = place.options(std::min(r, 1), r == 2 ? 3 : 2);
    if (r == 1) told.wait();  // the others come first
    if (r == 3) options.job = "other";
    try {
      sum_of_two(options);
    } catch (...) {
      told.count_down();
      throw;
    }
  });
  EXPECT_EQ(said[0], "");
  EXPECT_EQ(said[1], "");
  EXPECT_THAT(said[2], HasSubstr("there is another job"));
  EXPECT_THAT(said[3], HasSubstr("there is another job"));
}

}  // namespace
}  // namespace shoal
