#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "src/distributed/sockets.h"

namespace shoal {

// The records that processes exchange before they trust each other, each of a fixed size. The
// parsers take any bytes, of any number, that a stranger may have sent; they return nothing for
// bytes that are no such record, and every field of a record they return is in its range.

// A process that joins a job, to process 0.
struct Hello {
  std::uint64_t job = 0;             // a hash of the job's name
  std::int32_t rank = 0, count = 1;  // 0 <= rank < count
  std::string port;                  // at which it waits for its neighbour in the ring: 1 to 65535
};
inline constexpr std::size_t kHelloBytes = 32;
std::vector<std::byte> bytes_of(const Hello& hello);
std::optional<Hello> parse_hello(std::span<const std::byte> bytes);

enum class Answer : std::uint32_t {
  kWelcome = 1,  // all processes have joined
  kOtherJob,     // this is the rendezvous of another job
  kRankTaken,    // another process has this rank; next.host: where that one is
  kComplete,     // all processes had joined before
  kIncomplete,   // process `rank` has not come in time
  kBusy,         // ask again
};

// Process 0's answer.
struct Reply {
  Answer answer = Answer::kBusy;
  std::int32_t rank = 0;
  std::uint64_t token = 0;  // of the ring
  // The next process of the ring; no host: the one at which process 0 was reached.
  Endpoint next = {};
};
inline constexpr std::size_t kReplyBytes = 96;
std::vector<std::byte> bytes_of(const Reply& reply);
std::optional<Reply> parse_reply(std::span<const std::byte> bytes);

// The first bytes of a connection between neighbours of a ring.
struct RingHello {
  std::uint64_t token = 0;
  std::int32_t rank = 0;
};
inline constexpr std::size_t kRingHelloBytes = 24;
std::vector<std::byte> bytes_of(const RingHello& hello);
std::optional<RingHello> parse_ring_hello(std::span<const std::byte> bytes);

// The text in a launcher's store that says where process 0 is: its port and up to 8 hosts, one a
// line. Empty if it is no such text.
std::string addresses_text(const std::string& port, const std::vector<std::string>& hosts);
std::vector<Endpoint> parse_addresses(std::string_view text);

}  // namespace shoal
