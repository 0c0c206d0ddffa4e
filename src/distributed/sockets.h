#pragma once

#include <poll.h>

#include <chrono>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <utility>

namespace shoal {

using Deadline = std::chrono::steady_clock::time_point;

// Owns a connection or a listening socket.
class Socket {
 public:
  explicit Socket(int fd = -1) : fd_(fd) {}
  Socket(Socket&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Socket& operator=(Socket&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Socket();
  int fd() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }

 private:
  int fd_;
};

// A host's name or address, and a port.
struct Endpoint {
  std::string host, port;
};

// This machine's address on the route to `host`; empty if there is none.
std::string address_towards(const std::string& host);
// This machine's name.
std::string host_name();
// The address of the other end; empty if the connection is already closed.
std::string peer_address(const Socket& connection);
// This end's port.
std::string own_port(const Socket& socket);

// Listens at any port, on all addresses of this machine. Throws Error.
Socket listen_anywhere();
// Listens at this port, on all addresses; none on failure, with the reason in *why.
std::optional<Socket> listen_at(int port, std::string* why);
// Accepts a waiting connection; none if there is none, with errno from accept().
std::optional<Socket> accept_now(const Socket& listener);
// None if there is no route, no listener, or the deadline has passed; *why has the reason.
std::optional<Socket> connect_to(const Endpoint& to, Deadline deadline, std::string* why);

// Sends without blocking; a small message on a new connection is sent completely.
void send_now(const Socket& connection, std::span<const std::byte> bytes);
// Send or receive all bytes; false at the deadline, or if the connection is closed.
bool send_all(const Socket& connection, std::span<const std::byte> bytes, Deadline deadline);
bool receive_all(const Socket& connection, std::span<std::byte> bytes, Deadline deadline);

// Waits for an event of `all`, in their revents; false at the deadline. Throws Interrupted on a
// request to stop.
bool wait_for(std::span<pollfd> all, Deadline deadline);
// The same for as long as time is left, which it takes the wait from; none passes while the whole
// run is suspended.
bool wait_for(std::span<pollfd> all, Deadline::duration& left);

}  // namespace shoal
