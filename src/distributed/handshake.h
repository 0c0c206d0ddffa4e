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

// Fixed-size records that processes exchange before they trust each other. The parsers accept any
// bytes of any length. They return nothing for invalid records; all fields of a returned record are
// in their range.

// Sent to process 0 by a process that joins a job.
struct Hello {
  std::uint64_t job = 0;             // a hash of the job's name
  std::int32_t rank = 0, count = 1;  // 0 <= rank < count
  std::string port;  // where it accepts the previous process of the ring: 1 to 65535
};
inline constexpr std::size_t kHelloBytes = 32;
std::vector<std::byte> bytes_of(const Hello& hello);
std::optional<Hello> parse_hello(std::span<const std::byte> bytes);

enum class Answer : std::uint32_t {
  kWelcome = 1,  // all processes have joined
  kOtherJob,     // this is the rendezvous of another job
  kRankTaken,    // another process has this rank; next.host: its host
  kComplete,     // all processes have joined before
  kIncomplete,   // process `rank` did not join in time
  kBusy,         // try again
};

// Process 0's answer.
struct Reply {
  Answer answer = Answer::kBusy;
  std::int32_t rank = 0;
  std::uint64_t token = 0;  // of the ring
  // The next process of the ring; an empty host means the host of process 0.
  Endpoint next = {};
};
inline constexpr std::size_t kReplyBytes = 96;
std::vector<std::byte> bytes_of(const Reply& reply);
std::optional<Reply> parse_reply(std::span<const std::byte> bytes);

// The first record of a connection between neighbours of a ring.
struct RingHello {
  std::uint64_t token = 0;
  std::int32_t rank = 0;
};
inline constexpr std::size_t kRingHelloBytes = 24;
std::vector<std::byte> bytes_of(const RingHello& hello);
std::optional<RingHello> parse_ring_hello(std::span<const std::byte> bytes);

// The text by which process 0 publishes its address in a launcher's store: its port and up to 8
// hosts, one per line. The parser returns nothing for other text.
std::string addresses_text(const std::string& port, const std::vector<std::string>& hosts);
std::vector<Endpoint> parse_addresses(std::string_view text);

}  // namespace shoal
