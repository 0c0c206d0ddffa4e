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

// A connection, or what waits for one; closed with the object.
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

// This machine's address on the way to `host`; empty if there is none.
std::string address_towards(const std::string& host);
// This machine's name.
std::string host_name();
// The address of the other end; empty if the connection is closed already.
std::string peer_address(const Socket& connection);
// This end's port.
std::string own_port(const Socket& socket);

// Listens at any port, on all addresses of this machine. Throws Error.
Socket listen_anywhere();
// Listens at this port; none if that is not possible: *why says why.
std::optional<Socket> listen_at(int port, std::string* why);
// A connection that waits to be accepted; none if there is none, with errno as accept() set it.
std::optional<Socket> accept_now(const Socket& listener);
// None if there is no way, nobody listens there, or the deadline is over; *why says which.
std::optional<Socket> connect_to(const Endpoint& to, Deadline deadline, std::string* why);

// As much as the connection takes at once: few bytes for a new one.
void send_now(const Socket& connection, std::span<const std::byte> bytes);
// All of it, by the deadline; false if not, or if the other end is gone.
bool send_all(const Socket& connection, std::span<const std::byte> bytes, Deadline deadline);
bool receive_all(const Socket& connection, std::span<std::byte> bytes, Deadline deadline);

// Whether something has happened to one of them before the deadline.
bool wait_for(std::span<pollfd> all, Deadline deadline);

}  // namespace shoal
