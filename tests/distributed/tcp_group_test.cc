#include <ATen/ATen.h>
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <csignal>
#include <functional>
#include <latch>
#include <memory>
#include <string>
#include <vector>

#include "shoal/core/stop.h"
#include "shoal/distributed/process_group.h"
#include "shoal/ipc/rank_exchange.h"
#include "src/distributed/handshake.h"
#include "tests/distributed/rendezvous_store.h"
#include "tests/distributed/strangers.h"

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
TEST(TcpGroupTest, SumsToTheSameBitsInAll) {
  for (const int count : {1, 2, 3, 4}) {
    const testing::RendezvousStore place;
    const std::vector<std::int64_t> sizes = {0, 1, 2, 3, 1000, 8191, 8192, 8193, 8195, 300'001};
    std::vector<std::vector<at::Tensor>> got(static_cast<std::size_t>(count));
    const auto said = testing::in_threads(count, [&](int r) {
      const auto ranks = make_tcp_group(place.options(r, count));
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

TEST(TcpGroupTest, GathersWhatEachGivesInTheOrderOfTheRanks) {
  constexpr int kCount = 3;
  const testing::RendezvousStore place;
  const auto of = [](int rank, int turn) {
    const auto n = static_cast<std::size_t>(turn == 0 ? rank : 100'000 * rank * turn);
    return std::vector<std::byte>(n, static_cast<std::byte>(rank + turn));
  };
  const auto said = testing::in_threads(kCount, [&](int r) {
    const auto ranks = make_tcp_group(place.options(r, kCount));
    for (int turn = 0; turn < 3; ++turn) {
      const auto all = ranks->gather(of(r, turn));
      for (int other = 0; other < kCount; ++other)
        if (all[static_cast<std::size_t>(other)] != of(other, turn))
          throw std::runtime_error("wrong bytes");
    }
  });
  EXPECT_THAT(said, Each(IsEmpty()));
}

TEST(TcpGroupTest, NamesWhoDoesSomethingElse) {
  const testing::RendezvousStore place;
  const auto said = testing::in_threads(3, [&](int r) {
    const auto ranks = make_tcp_group(place.options(r, 3));
    auto x = at::zeros({r == 1 ? 5 : 4});
    ranks->sum(x);
  });
  // The rank that detects it closes its connections, which its neighbours may see first.
  EXPECT_THAT(said, Each(AnyOf(HasSubstr("must make the same calls"), HasSubstr("has closed"))));
  const auto named = [](int other, int theirs, int own) {
    return HasSubstr(fmt::format("process {} of 3 sums ({} bytes, call 0), this one sums ({} bytes",
                                 other, theirs, own));
  };
  EXPECT_THAT(said, ::testing::Contains(AnyOf(named(1, 20, 16), named(0, 16, 20))));
}

TEST(TcpGroupTest, NamesWhoIsGoneAndWhoDoesNotCome) {
  const testing::RendezvousStore place;
  std::latch all_over(2);
  const auto said = testing::in_threads(3, [&](int r) {
    auto options = place.options(r, 3);
    options.timeout = 2s;
    auto ranks = make_tcp_group(options);
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
  EXPECT_THAT(said[2], AllOf(HasSubstr("process 1 of 3 did not respond for 2.0 s"),
                             HasSubstr("raise the timeout")));
  EXPECT_THAT(said[0], AnyOf(HasSubstr("process 2 of 3 has closed its connection"),
                             HasSubstr("process 2 of 3 did not respond")));

  const testing::RendezvousStore other;
  const auto gone = testing::in_threads(2, [&](int r) {
    const auto ranks = make_tcp_group(other.options(r, 2));
    auto x = at::ones({4});
    ranks->sum(x);
    if (r == 1) return;  // and closes its ends
    ranks->sum(x);
  });
  EXPECT_THAT(gone[0], HasSubstr("process 1 of 2 has closed its connection"));
}

void sum_of(const TcpGroupOptions& options) {
  auto x = at::ones({4});
  make_tcp_group(options)->sum(x);
  if (!x.equal(at::full({4}, static_cast<double>(options.count))))
    throw std::runtime_error("wrong sum");
}

// Counts down, even where an exception ends a thread that others wait for.
struct AtEnd {
  std::latch& latch;
  ~AtEnd() { latch.count_down(); }
};

// Process 0 listens at the rendezvous address itself.
class RendezvousTest : public ::testing::Test {
 protected:
  TcpGroupOptions of(int rank, int count) const {
    return {.rank = rank, .count = count, .port = port_, .timeout = 20s};
  }
  Socket stranger() const { return testing::stranger_at(port_); }
  // Sends the hello of a joining process.
  Socket joined(int rank, int count) const {
    auto one = stranger();
    const auto job = std::hash<std::string>()("");
    send_now(one, bytes_of(Hello{.job = job, .rank = rank, .count = count, .port = "1"}));
    return one;
  }
  static Reply answer_to(const Socket& connection) {
    std::vector<std::byte> bytes(kReplyBytes);
    if (!receive_all(connection, bytes, std::chrono::steady_clock::now() + 10s))
      throw std::runtime_error("no answer");
    return parse_reply(bytes).value();
  }

  const int port_ = testing::free_port();
};

TEST_F(RendezvousTest, NeedsNoStore) {
  for (int attempt = 0; attempt < 3; ++attempt)  // each takes the port of the one before
    EXPECT_THAT(testing::in_threads(3, [&](int r) { sum_of(of(r, 3)); }), Each(IsEmpty()));
}

// If read one after the other, each would be waited for.
TEST_F(RendezvousTest, StrangersThatSayNothingDelayNobody) {
  std::vector<Socket> strangers;
  const auto begin = std::chrono::steady_clock::now();
  const auto said = testing::in_threads(3, [&](int r) {
    if (r == 2) {
      for (int i = 0; i < 200; ++i) strangers.push_back(stranger());
      send_now(strangers.back(), bytes_of(Hello{.port = "1"}));
      send_now(strangers[190], std::as_bytes(std::span("GET / HTTP/1.1")));
    }
    sum_of(of(r, 3));
  });
  EXPECT_THAT(said, Each(IsEmpty()));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 5s);
}

TEST_F(RendezvousTest, ConnectionsThatCloseAtOnceDisturbNobody) {
  std::latch over(1);
  const auto said = testing::in_threads(4, [&](int r) {
    if (r == 3) {
      const AtEnd end{over};
      return testing::connect_and_close(port_, 200);
    }
    const auto ranks = make_tcp_group(of(r, 3));
    for (int i = 0; i < 3; ++i) {
      if (r == 2) testing::connect_and_close(port_, 50);  // before and while the job runs
      if (i == 2) over.wait();
      auto x = at::ones({1});
      ranks->sum(x);
    }
  });
  EXPECT_THAT(said, Each(IsEmpty()));
}

TEST_F(RendezvousTest, AProcessThatDiesWhileItWaitsCanBeReplaced) {
  std::latch dead(1);
  const auto said = testing::in_threads(3, [&](int r) {
    for (int i = 0; r == 1 && i < 3; ++i) {
      const auto before = joined(1, 3);
      if (i == 1) testing::reset_at_end(before);
    }
    if (r == 1) dead.count_down();
    if (r == 2) dead.wait();
    sum_of(of(r, 3));
  });
  EXPECT_THAT(said, Each(IsEmpty()));
}

TEST_F(RendezvousTest, ASecondProcessOfARankIsToldSoBeforeTheJobRuns) {
  std::latch told(1);
  ::testing::internal::CaptureStderr();
  const auto said = testing::in_threads(4, [&](int r) {
    if (r == 1 || r == 2) told.wait();
    if (r < 3) return sum_of(of(r, 3));
    const AtEnd end{told};
    EXPECT_EQ(answer_to(joined(0, 3)).answer, Answer::kRankTaken);
    const auto first = joined(2, 3);
    EXPECT_EQ(answer_to(joined(2, 3)).answer, Answer::kRankTaken);
  });
  const auto notes = ::testing::internal::GetCapturedStderr();
  EXPECT_THAT(said, Each(IsEmpty()));
  EXPECT_THAT(notes,
              HasSubstr("note: process 0 of 3: a second process 2 connected from 127.0.0.1"));
}

TEST_F(RendezvousTest, AProcessThatComesTooLateIsToldSoAndTheJobGoesOn) {
  std::latch runs(2), told(3);
  ::testing::internal::CaptureStderr();
  const auto said = testing::in_threads(5, [&](int r) {
    if (r >= 2) {
      runs.wait();
      const AtEnd end{told};
      auto options = of(r == 2 ? 0 : 1, 2);
      if (r == 4) options.job = "other";
      return sum_of(options);
    }
    const auto ranks = make_tcp_group(of(r, 2));
    for (int i = 0; i < 2; ++i) {
      auto x = at::ones({1});
      ranks->sum(x);
      if (i > 0) continue;
      runs.count_down();
      told.wait();
    }
  });
  const auto notes = ::testing::internal::GetCapturedStderr();
  EXPECT_EQ(said[0] + said[1], "");
  EXPECT_THAT(said[2], HasSubstr("another process 0 of 2 of this job is already running"));
  EXPECT_THAT(said[3],
              HasSubstr("is already running: all its 2 processes had connected before this one"));
  EXPECT_THAT(said[4], HasSubstr("is the rendezvous of another job"));
  EXPECT_THAT(notes, HasSubstr("a second process 1 connected from 127.0.0.1 and was rejected"));
}

TEST_F(RendezvousTest, ARequestToStopEndsTheAnswersQuietly) {
  std::vector<std::unique_ptr<ProcessGroup>> ranks(2);
  const auto said = testing::in_threads(2, [&](int r) {
    auto& own = ranks[static_cast<std::size_t>(r)];
    own = make_tcp_group(of(r, 2));
    auto x = at::ones({1});
    own->sum(x);
  });
  ASSERT_THAT(said, Each(IsEmpty()));
  ::testing::internal::CaptureStderr();
  set_stop_grace(0ms);
  request_stop(SIGTERM);
  for (bool answered = true; answered;) {
    const auto late = joined(1, 2);
    pollfd answer{late.fd(), POLLIN, 0};
    answered = poll(&answer, 1, 500) > 0;
  }
  ranks.clear();
  request_stop(0);
  set_stop_grace(kStopGrace);
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              ::testing::Not(HasSubstr("no longer answered")));
}

TEST_F(RendezvousTest, AllAreToldWhoIsMissingAndBeforehandThatSomebodyIs) {
  ::testing::internal::CaptureStderr();
  const auto said = testing::in_threads(3, [&](int r) {
    auto options = of(r, 3);
    options.port = r == 2 ? testing::free_port() : options.port;
    options.timeout = r == 1 ? 4500ms : 5000ms;  // 1 would give up before 0 has
    sum_of(options);
  });
  const auto notes = ::testing::internal::GetCapturedStderr();
  EXPECT_THAT(said[0], HasSubstr("process 2 of 3 did not connect to 127.0.0.1 port"));
  EXPECT_THAT(said[1], HasSubstr("process 2 of 3 did not connect"));
  EXPECT_THAT(said[2], AllOf(HasSubstr("process 0 of 3 was not reached"), HasSubstr("refused")));
  EXPECT_THAT(notes, HasSubstr("note: process 0 of 3: process 2 has not connected to"));
  EXPECT_THAT(notes, AllOf(HasSubstr("note: process 2 of 3: no answer yet from process 0"),
                           HasSubstr("or the job has ended")));
}

TEST_F(RendezvousTest, APortThatAnotherProgramHasIsNamed) {
  std::string why;
  const auto other = listen_at(port_, &why);
  ASSERT_TRUE(other) << why;
  const auto said = testing::in_threads(1, [&](int) { sum_of(of(0, 2)); });
  EXPECT_THAT(said[0], AllOf(HasSubstr("cannot bind the rendezvous address 127.0.0.1 port"),
                             HasSubstr("MASTER_PORT")));
}

// Connects to process 0 as soon as the store has its address.
Socket stranger_of_store(testing::RendezvousStore& place) {
  const auto known = parse_addresses(place.store().get_to_str("shoal/first"));
  return testing::stranger_at(std::stoi(known.at(0).port));
}

TEST(TcpGroupTest, SendsStrangersAway) {
  testing::RendezvousStore place;
  Socket stranger;
  const auto said = testing::in_threads(2, [&](int r) {
    if (r == 1) {
      stranger = stranger_of_store(place);
      send_now(stranger, std::vector<std::byte>(100, std::byte{1}));
    }
    sum_of(place.options(r, 2));
  });
  EXPECT_THAT(said, Each(IsEmpty()));
}

// A launcher's store outlives the processes that the launcher restarts.
TEST(TcpGroupTest, WhatEarlierProcessesHaveLeftInTheStoreMisleadsNobody) {
  testing::RendezvousStore place;
  for (int attempt = 0; attempt < 3; ++attempt) {
    const auto said = testing::in_threads(2, [&](int r) {
      // The second process reads the stale address of the first one.
      if (attempt > 0 && r == 0) std::this_thread::sleep_for(200ms);
      sum_of(place.options(r, 2));
    });
    EXPECT_THAT(said, Each(IsEmpty()));
  }
}

TEST(TcpGroupTest, ASecondProcessZeroIsToldSoWhereALauncherHasAStore) {
  testing::RendezvousStore place;
  std::latch runs(2), told(1);
  const auto said = testing::in_threads(3, [&](int r) {
    if (r == 2) {
      runs.wait();
      const AtEnd end{told};
      return sum_of(place.options(0, 2));
    }
    const auto ranks = make_tcp_group(place.options(r, 2));
    auto x = at::ones({1});
    ranks->sum(x);
    runs.count_down();
    told.wait();
  });
  EXPECT_EQ(said[0] + said[1], "");
  EXPECT_THAT(said[2], HasSubstr("another process 0 of 2 of this job is already running"));
}

TEST(TcpGroupTest, AnotherJobIsToldSo) {
  testing::RendezvousStore place;
  std::latch told(2);
  const auto said = testing::in_threads(4, [&](int r) {
    auto options = place.options(std::min(r, 1), r == 2 ? 3 : 2);
    if (r == 1) told.wait();  // the others come first
    if (r == 3) options.job = "other";
    try {
      sum_of(options);
    } catch (...) {
      told.count_down();
      throw;
    }
  });
  EXPECT_EQ(said[0], "");
  EXPECT_EQ(said[1], "");
  EXPECT_THAT(said[2], HasSubstr("is the rendezvous of another job"));
  EXPECT_THAT(said[3], HasSubstr("is the rendezvous of another job"));
}

}  // namespace
}  // namespace shoal
