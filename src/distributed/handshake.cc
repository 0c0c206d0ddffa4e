#include "src/distributed/handshake.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <type_traits>

#include "shoal/core/error.h"

namespace shoal {
namespace {

constexpr std::size_t kMostHosts = 8, kLongestHost = 253;

// Wire formats. The magic word identifies the record and its version, and does not match on a
// machine of another byte order.
struct HelloRecord {
  static constexpr std::uint64_t kMagic = 0x73686f616c2d6831;  // "shoal-h1"
  std::uint64_t magic = kMagic, job = 0;
  std::int32_t rank = 0, count = 0;
  std::array<char, 8> port{};
};

struct ReplyRecord {
  static constexpr std::uint64_t kMagic = 0x73686f616c2d7231;  // "shoal-r1"
  std::uint64_t magic = kMagic;
  std::uint32_t answer = 0;
  std::int32_t rank = 0;
  std::uint64_t token = 0;
  std::array<char, 64> next_host{};
  std::array<char, 8> next_port{};
};

struct RingHelloRecord {
  static constexpr std::uint64_t kMagic = 0x73686f616c2d6e31;  // "shoal-n1"
  std::uint64_t magic = kMagic, token = 0;
  std::int32_t rank = 0, unused = 0;
};

static_assert(sizeof(HelloRecord) == kHelloBytes && sizeof(ReplyRecord) == kReplyBytes &&
              sizeof(RingHelloRecord) == kRingHelloBytes);

template <class Record>
std::vector<std::byte> to_wire(const Record& record) {
  static_assert(std::has_unique_object_representations_v<Record>, "padding would be sent");
  const auto bytes = std::as_bytes(std::span(&record, 1));
  return {bytes.begin(), bytes.end()};
}

template <class Record>
std::optional<Record> from_wire(std::span<const std::byte> bytes) {
  Record record;
  if (bytes.size() != sizeof record) return std::nullopt;
  std::memcpy(&record, bytes.data(), sizeof record);
  if (record.magic != Record::kMagic) return std::nullopt;
  return record;
}

template <std::size_t kSize>
void write(const std::string& text, std::array<char, kSize>& to) {
  require(text.size() <= kSize, "address: found '{}', expected at most {} characters", text, kSize);
  std::ranges::copy(text, to.begin());
}

// The text up to the zero byte, which a full field lacks.
template <std::size_t kSize>
std::string text_of(const std::array<char, kSize>& from) {
  return {from.begin(), std::ranges::find(from, '\0')};
}

bool is_port_text(std::string_view text) {
  int port = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
  return error == std::errc() && end == text.data() + text.size() && port >= 1 && port <= 65535;
}

bool is_host_text(std::string_view text) {
  return text.size() <= kLongestHost &&
         std::ranges::all_of(text, [](char c) { return c > ' ' && c < '\x7f'; });
}

}  // namespace

std::vector<std::byte> bytes_of(const Hello& hello) {
  HelloRecord record{.job = hello.job, .rank = hello.rank, .count = hello.count};
  write(hello.port, record.port);
  return to_wire(record);
}

std::optional<Hello> parse_hello(std::span<const std::byte> bytes) {
  const auto record = from_wire<HelloRecord>(bytes);
  if (!record || record->rank < 0 || record->rank >= record->count) return std::nullopt;
  Hello hello{record->job, record->rank, record->count, text_of(record->port)};
  if (!is_port_text(hello.port)) return std::nullopt;
  return hello;
}

std::vector<std::byte> bytes_of(const Reply& reply) {
  ReplyRecord record{
      .answer = static_cast<std::uint32_t>(reply.answer), .rank = reply.rank, .token = reply.token};
  write(reply.next.host, record.next_host);
  write(reply.next.port, record.next_port);
  return to_wire(record);
}

std::optional<Reply> parse_reply(std::span<const std::byte> bytes) {
  const auto record = from_wire<ReplyRecord>(bytes);
  if (!record || record->answer < static_cast<std::uint32_t>(Answer::kWelcome) ||
      record->answer > static_cast<std::uint32_t>(Answer::kBusy) || record->rank < 0)
    return std::nullopt;
  Reply reply{static_cast<Answer>(record->answer),
              record->rank,
              record->token,
              {text_of(record->next_host), text_of(record->next_port)}};
  const bool welcome = reply.answer == Answer::kWelcome;
  if (!is_host_text(reply.next.host) || (welcome && !is_port_text(reply.next.port)))
    return std::nullopt;
  return reply;
}

std::vector<std::byte> bytes_of(const RingHello& hello) {
  return to_wire(RingHelloRecord{.token = hello.token, .rank = hello.rank});
}

std::optional<RingHello> parse_ring_hello(std::span<const std::byte> bytes) {
  const auto record = from_wire<RingHelloRecord>(bytes);
  if (!record || record->rank < 0) return std::nullopt;
  return RingHello{record->token, record->rank};
}

std::string addresses_text(const std::string& port, const std::vector<std::string>& hosts) {
  auto text = port;
  for (const auto& host : hosts)
    if (!host.empty()) text += '\n' + host;
  return text;
}

std::vector<Endpoint> parse_addresses(std::string_view text) {
  std::vector<std::string_view> lines;
  while (lines.size() <= kMostHosts) {
    const auto end = text.find('\n');
    lines.push_back(text.substr(0, end));
    if (end == std::string_view::npos) break;
    text.remove_prefix(end + 1);
  }
  std::vector<Endpoint> addresses;
  if (!is_port_text(lines[0])) return addresses;
  for (std::size_t i = 1; i < lines.size(); ++i)
    if (!lines[i].empty() && is_host_text(lines[i]))
      addresses.push_back({std::string(lines[i]), std::string(lines[0])});
  return addresses;
}

}  // namespace shoal
