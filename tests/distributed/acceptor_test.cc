#include "src/distributed/acceptor.h"

#include <gmock/gmock.h>
#include <sys/resource.h>

#include <array>
#include <string>
#include <vector>

#include "tests/distributed/strangers.h"

namespace shoal {
namespace {

using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

class AcceptorTest : public ::testing::Test {
 protected:
  Socket connected() const { return testing::stranger_at(port_); }
  static void say(const Socket& connection, std::string_view text) {
    send_now(connection, std::as_bytes(std::span(text)));
  }
  // The text of the next record; "" if none comes in time.
  static std::string next_of(Acceptor& acceptor, Clock::duration within = 10s) {
    const auto arrival = acceptor.next(Clock::now() + within);
    if (!arrival) return "";
    EXPECT_EQ(arrival->host, "127.0.0.1");
    return {reinterpret_cast<const char*>(arrival->record.data()), arrival->record.size()};
  }
  // All bytes until the other end closes the connection.
  static std::string rest_of(const Socket& connection) {
    std::array<char, 100> text{};
    std::string all;
    for (;;) {
      const auto n = recv(connection.fd(), text.data(), text.size(), 0);
      if (n <= 0) return n == 0 ? all : "an error";
      all.append(text.data(), static_cast<std::size_t>(n));
    }
  }
  static std::vector<std::byte> bytes(std::string_view text) {
    const auto all = std::as_bytes(std::span(text));
    return {all.begin(), all.end()};
  }

  Socket listener_ = listen_anywhere();
  int port_ = std::stoi(own_port(listener_));
};

TEST_F(AcceptorTest, SilentConnectionsDelayNoOther) {
  Acceptor acceptor(listener_, {.record = 4, .patience = 60s});
  std::vector<Socket> silent;
  for (int i = 0; i < 50; ++i) silent.push_back(connected());
  say(silent[7], "he");
  const auto peer = connected();
  say(peer, "helo");
  EXPECT_EQ(next_of(acceptor), "helo");
  say(silent[7], "y!");
  EXPECT_EQ(next_of(acceptor), "hey!") << "a record may come in pieces";
}

TEST_F(AcceptorTest, OfTooManyConnectionsTheOldestAreClosed) {
  Acceptor acceptor(listener_,
                    {.record = 4, .patience = 60s, .most = 4, .rejection = bytes("bye")});
  std::vector<Socket> silent;
  for (int i = 0; i < 10; ++i) silent.push_back(connected());
  const auto peer = connected();
  say(peer, "helo");
  EXPECT_EQ(next_of(acceptor), "helo");
  for (std::size_t i = 0; i < 6; ++i) EXPECT_EQ(rest_of(silent[i]), "bye");
  say(silent[9], "late");
  EXPECT_EQ(next_of(acceptor), "late");
}

TEST_F(AcceptorTest, ConnectionsThatTakeTooLongAreClosed) {
  Acceptor acceptor(listener_, {.record = 4, .patience = 50ms, .rejection = bytes("bye")});
  const auto silent = connected();
  say(silent, "hel");
  EXPECT_EQ(next_of(acceptor, 300ms), "");
  EXPECT_EQ(rest_of(silent), "bye");
}

TEST_F(AcceptorTest, ConnectionsThatCloseAtOnceDisturbNoOther) {
  Acceptor acceptor(listener_, {.record = 4});
  testing::connect_and_close(port_, 100);
  const auto peer = connected();
  testing::connect_and_close(port_, 100);
  say(peer, "helo");
  EXPECT_EQ(next_of(acceptor), "helo");
  EXPECT_EQ(next_of(acceptor, 100ms), "");
}

// Sets how many files this process may have open.
class FileLimit {
 public:
  explicit FileLimit(rlim_t files) {
    getrlimit(RLIMIT_NOFILE, &before_);
    auto now = before_;
    now.rlim_cur = files;
    setrlimit(RLIMIT_NOFILE, &now);
  }
  ~FileLimit() { setrlimit(RLIMIT_NOFILE, &before_); }

 private:
  rlimit before_{};
};

TEST_F(AcceptorTest, WithoutAFreeFileDescriptorTheOldestConnectionIsClosed) {
  Acceptor acceptor(listener_, {.record = 4, .patience = 60s});
  std::vector<Socket> silent;
  for (int i = 0; i < 20; ++i) silent.push_back(connected());
  const auto peer = connected();
  say(peer, "helo");
  const FileLimit limit(static_cast<rlim_t>(peer.fd()) + 5);
  EXPECT_EQ(next_of(acceptor), "helo");
}

TEST_F(AcceptorTest, WithoutAnyItWaitsWithoutSpinning) {
  Acceptor acceptor(listener_, {.record = 4});
  const auto peer = connected();
  say(peer, "helo");
  {
    const FileLimit limit(static_cast<rlim_t>(peer.fd()));
    rusage before{}, after{};
    getrusage(RUSAGE_THREAD, &before);
    EXPECT_EQ(next_of(acceptor, 500ms), "");
    getrusage(RUSAGE_THREAD, &after);
    const auto used = [](const rusage& r) {
      return 1e6 * static_cast<double>(r.ru_utime.tv_sec + r.ru_stime.tv_sec) +
             static_cast<double>(r.ru_utime.tv_usec + r.ru_stime.tv_usec);
    };
    EXPECT_LT(used(after) - used(before), 50'000) << "microseconds of 500,000";
  }
  EXPECT_EQ(next_of(acceptor), "helo");
}

TEST_F(AcceptorTest, WhatHappensElsewhereEndsAWait) {
  Acceptor acceptor(listener_, {.record = 4});
  const auto peer = connected();
  say(peer, "helo");
  auto arrival = acceptor.next(Clock::now() + 10s);
  ASSERT_TRUE(arrival);
  std::array<pollfd, 2> others{{{-1, POLLIN, 0}, {arrival->connection.fd(), POLLIN, 0}}};
  say(peer, "x");
  EXPECT_FALSE(acceptor.next(Clock::now() + 10s, others));
  EXPECT_EQ(others[0].revents, 0);
  EXPECT_NE(others[1].revents, 0);
}

}  // namespace
}  // namespace shoal
