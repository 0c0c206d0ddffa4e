#pragma once

#include <chrono>
#include <cstdint>

#include "src/distributed/ring.h"
#include "src/distributed/sockets.h"

namespace shoal {

// A ring of TCP connections.
class SocketRing : public Ring {
 public:
  // Connects to `next`, and accepts the connection of the previous process from `listener`. token:
  // unique to this ring; connections with another token are rejected.
  SocketRing(int place, int count, const Socket& listener, const Endpoint& next,
             std::uint64_t token, std::chrono::milliseconds timeout);

  void pass(const Act& act, std::span<const std::byte> out, std::span<std::byte> in) override;

 private:
  Socket next_, before_;
};

}  // namespace shoal
