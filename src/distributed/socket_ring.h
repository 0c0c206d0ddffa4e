#pragma once

#include <chrono>
#include <cstdint>

#include "src/distributed/ring.h"
#include "src/distributed/sockets.h"

namespace shoal {

// A ring of connections.
class SocketRing : public Ring {
 public:
  // Connects to `next`, and takes the connection of the one before from `listener`. token: the same
  // in all processes of a ring, and in no other one; who comes with another one is sent away.
  SocketRing(int place, int count, const Socket& listener, const Endpoint& next,
             std::uint64_t token, std::chrono::milliseconds timeout);

  void pass(const Act& act, std::span<const std::byte> out, std::span<std::byte> in) override;

 private:
  Socket next_, before_;
};

}  // namespace shoal
