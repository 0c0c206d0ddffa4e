#include "src/distributed/handshake.h"

#include <gmock/gmock.h>

#include <cstring>
#include <random>
#include <string>
#include <vector>

namespace shoal {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;
using Bytes = std::vector<std::byte>;

const Hello kHello{.job = 7, .rank = 2, .count = 3, .port = "29500"};
constexpr std::size_t kRankAt = 16, kCountAt = 20, kPortAt = 24;  // in its record
constexpr std::size_t kAnswerAt = 8, kHostAt = 24, kNextPortAt = 88;

Reply welcome(const std::string& host, const std::string& port) {
  return {.answer = Answer::kWelcome, .token = 5, .next = {host, port}};
}

// Memory that ends with the bytes, so that a sanitizer detects reads beyond them.
Bytes changed(Bytes bytes, std::size_t at, const std::string& text) {
  std::memcpy(bytes.data() + at, text.data(), text.size());
  return {bytes.begin(), bytes.end()};
}

Bytes changed(Bytes bytes, std::size_t at, std::int32_t number) {
  std::memcpy(bytes.data() + at, &number, sizeof number);
  return bytes;
}

TEST(HandshakeTest, RecordsComeBackAsTheyWere) {
  const auto hello = parse_hello(bytes_of(kHello));
  ASSERT_TRUE(hello);
  EXPECT_EQ(hello->job, 7);
  EXPECT_EQ(hello->rank, 2);
  EXPECT_EQ(hello->count, 3);
  EXPECT_EQ(hello->port, "29500");

  const auto reply = parse_reply(bytes_of(welcome("fe80::1%eth0", "1")));
  ASSERT_TRUE(reply);
  EXPECT_EQ(reply->answer, Answer::kWelcome);
  EXPECT_EQ(reply->token, 5);
  EXPECT_EQ(reply->next.host, "fe80::1%eth0");
  EXPECT_EQ(reply->next.port, "1");
  EXPECT_TRUE(parse_reply(bytes_of(Reply{.answer = Answer::kOtherJob})));

  const auto ring = parse_ring_hello(bytes_of(RingHello{.token = 9, .rank = 4}));
  ASSERT_TRUE(ring);
  EXPECT_EQ(ring->token, 9);
  EXPECT_EQ(ring->rank, 4);
}

TEST(HandshakeTest, NoOtherNumberOfBytesIsARecord) {
  for (std::size_t size = 0; size < 200; ++size) {
    const auto first = [&](Bytes bytes) {
      bytes.resize(size);
      return bytes;
    };
    EXPECT_EQ(parse_hello(first(bytes_of(kHello))).has_value(), size == kHelloBytes);
    EXPECT_EQ(parse_reply(first(bytes_of(welcome("a", "1")))).has_value(), size == kReplyBytes);
    EXPECT_EQ(parse_ring_hello(first(bytes_of(RingHello{}))).has_value(), size == kRingHelloBytes);
  }
}

TEST(HandshakeTest, EveryFieldIsInItsRange) {
  const auto hello = bytes_of(kHello);
  EXPECT_FALSE(parse_hello(changed(hello, 0, "GET / HT")));
  EXPECT_FALSE(parse_hello(bytes_of(RingHello{})));
  for (const int rank : {-1, 3, 1 << 30}) EXPECT_FALSE(parse_hello(changed(hello, kRankAt, rank)));
  for (const int count : {-1, 0, 2}) EXPECT_FALSE(parse_hello(changed(hello, kCountAt, count)));
  const std::string zero(1, '\0');
  for (const std::string port : {"", "0", "65536", "80x", "-1", "+1", " 1"})
    EXPECT_FALSE(parse_hello(changed(hello, kPortAt, port + zero))) << port;

  const auto reply = bytes_of(welcome("host", "29500"));
  for (const int answer : {-1, 0, 7}) EXPECT_FALSE(parse_reply(changed(reply, kAnswerAt, answer)));
  EXPECT_FALSE(parse_reply(changed(reply, kHostAt, "a\nb")));
  EXPECT_FALSE(parse_reply(changed(reply, kNextPortAt, "99999")));
}

TEST(HandshakeTest, TextsWithoutAZeroByteEndWithTheirField) {
  const auto port = changed(bytes_of(kHello), kPortAt, "00029500");
  ASSERT_TRUE(parse_hello(port));
  EXPECT_EQ(parse_hello(port)->port, "00029500");
  EXPECT_FALSE(parse_hello(changed(port, kPortAt, "29500xyz")));

  const std::string host(64, 'h');
  const auto reply = changed(bytes_of(welcome("", "29500")), kHostAt, host);
  ASSERT_TRUE(parse_reply(reply));
  EXPECT_EQ(parse_reply(reply)->next.host, host);
  EXPECT_EQ(parse_reply(reply)->next.port, "29500");
}

TEST(HandshakeTest, AddressesAreAPortAndAFewHosts) {
  const auto all = parse_addresses(addresses_text("29500", {"10.0.0.1", "", "first"}));
  ASSERT_THAT(all, SizeIs(2));
  EXPECT_EQ(all[0].host, "10.0.0.1");
  EXPECT_EQ(all[1].host, "first");
  EXPECT_EQ(all[1].port, "29500");
  EXPECT_THAT(parse_addresses(addresses_text("1", std::vector<std::string>(100, "h"))), SizeIs(8));
  for (const std::string text : {"", "\n", "99999\nhost", "80x\nhost", "80", "80\n\n", "80\na b"})
    EXPECT_THAT(parse_addresses(text), IsEmpty()) << text;
  EXPECT_THAT(parse_addresses("80\n" + std::string(100'000, 'h')), IsEmpty());
}

// Random bytes.
TEST(HandshakeTest, DamagedRecordsAreRefusedOrHaveFieldsInRange) {
  std::mt19937 random(1);
  const auto damaged = [&](Bytes bytes) {
    for (auto changes = random() % 6; changes > 0; --changes)
      bytes[random() % bytes.size()] = static_cast<std::byte>(random());
    return bytes;
  };
  for (int i = 0; i < 20'000; ++i) {
    if (const auto hello = parse_hello(damaged(bytes_of(kHello)))) {
      ASSERT_GE(hello->rank, 0);
      ASSERT_LT(hello->rank, hello->count);
      ASSERT_LE(std::stoi(hello->port), 65535);
    }
    if (const auto reply = parse_reply(damaged(bytes_of(welcome("host", "29500"))))) {
      ASSERT_GE(reply->rank, 0);
      ASSERT_LE(reply->next.host.size(), 64);
    }
  }
}

}  // namespace
}  // namespace shoal
