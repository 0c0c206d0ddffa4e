#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <utility>

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

// Process `place` of `count`, in a circle: each sends to the next one and receives from the one
// before. Whoever does not come within the timeout, has closed its end or does something else is
// named by a RankError, after which nobody may use the ring. Used by one thread.
class SocketRing {
 public:
  // own: how the others reach this process; any port. exchange: gives the others what they connect
  // to (the own endpoint), and returns that of the next. Both are called once. token: the same in
  // all processes of a ring, and in no other one; who comes with another one is sent away.
  SocketRing(int place, int count, const std::string& own_address, std::uint64_t token,
             std::chrono::milliseconds timeout,
             const std::function<Endpoint(const Endpoint& own)>& exchange);

  int place() const { return place_; }
  int count() const { return count_; }

  // What a pass is for: all must say the same.
  struct Act {
    std::uint32_t kind = 0;
    std::uint32_t number = 0;  // which one it is, of all
    std::uint64_t size = 0;    // bytes of the whole
    bool operator==(const Act&) const = default;
  };
  // Sends all of `out` to the next, while all of `in` comes from the one before.
  void pass(const Act& act, std::span<const std::byte> out, std::span<std::byte> in);

 private:
  int next_place() const { return (place_ + 1) % count_; }
  int place_before() const { return (place_ + count_ - 1) % count_; }
  [[noreturn]] void fail(int place, const std::string& what) const;

  int place_, count_;
  std::chrono::milliseconds timeout_;
  Socket next_, before_;
};

}  // namespace shoal
