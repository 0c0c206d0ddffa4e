// Records that processes of a job exchange before they trust each other.
#include "src/distributed/handshake.h"

#include <span>
#include <string>
#include <vector>

#include "tests/fuzz/fuzz.h"

namespace shoal::fuzz {
namespace {

// An accepted record is unchanged after serialization and parsing.
template <class Parse>
void expect_round_trip(std::span<const std::byte> bytes, const Parse& parse) {
  const auto record = parse(bytes);
  if (!record) return;
  const auto sent = bytes_of(*record);
  const auto again = parse(sent);
  expect(again && bytes_of(*again) == sent, "the same record again");
}

}  // namespace

void run(std::string_view input) {
  const auto bytes = std::as_bytes(std::span(input));
  expect_round_trip(bytes, parse_hello);
  expect_round_trip(bytes, parse_reply);
  expect_round_trip(bytes, parse_ring_hello);

  const auto addresses = parse_addresses(input);
  if (addresses.empty()) return;
  std::vector<std::string> hosts;
  for (const auto& at : addresses) hosts.push_back(at.host);
  const auto again = parse_addresses(addresses_text(addresses[0].port, hosts));
  expect(again.size() == addresses.size(), "the same addresses again");
}

}  // namespace shoal::fuzz
