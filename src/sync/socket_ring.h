#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <utility>

#include "src/sync/ring.h"

namespace shoal {

// A connection, or what waits for one; closed with the object.
class Socket {
 public:
  explicit Socket(int fd = -1) : fd_(fd) {}
  Socket(Socket&& other) noexcept : fd_(other.fd_) { other.fd_ = -1; }
  Socket& operator=(Socket&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Socket();
  int fd() const { return fd_; }

 private:
  int fd_;
};

// "address port", both as numbers.
struct Endpoint {
  std::string address, port;
};

// This machine's address on the way to `host`, by which that one and its neighbours reach it.
// Throws Error if the host has no address, or there is no way to it.
Endpoint address_towards(const std::string& host, int port);

// A ring of connections.
class SocketRing : public Ring {
 public:
  // own: how the others reach this process; any port. exchange: gives the others what they connect
  // to (the own endpoint), and returns that of the next. Both are called once. token: the same in
  // all processes of a ring, and in no other one; who comes with another one is sent away.
  SocketRing(int place, int count, const std::string& own_address, std::uint64_t token,
             std::chrono::milliseconds timeout,
             const std::function<Endpoint(const Endpoint& own)>& exchange);

  void pass(const Act& act, std::span<const std::byte> out, std::span<std::byte> in) override;

 private:
  Socket next_, before_;
};

}  // namespace shoal
