#include "src/distributed/sockets.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>

#include "shoal/core/error.h"
#include "shoal/core/stop.h"

namespace shoal {
namespace {

using Addresses = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

// Reads errno at the time of the call: do not use it as an argument of the call that sets errno.
std::string last_error() { return std::strerror(errno); }

// Null if the host has no address.
Addresses look_up(const Endpoint& of, int type) {
  addrinfo hints{};
  hints.ai_socktype = type;
  addrinfo* found = nullptr;
  if (getaddrinfo(of.host.c_str(), of.port.c_str(), &hints, &found) != 0) found = nullptr;
  return {found, &freeaddrinfo};
}

using GetName = int (*)(int, sockaddr*, socklen_t*);

std::optional<Endpoint> name_of(int fd, GetName get_name) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  std::array<char, NI_MAXHOST> host{};
  std::array<char, NI_MAXSERV> port{};
  auto* const any = reinterpret_cast<sockaddr*>(&address);
  const bool read = get_name(fd, any, &size) == 0 &&
                    getnameinfo(any, size, host.data(), host.size(), port.data(), port.size(),
                                NI_NUMERICHOST | NI_NUMERICSERV) == 0;
  if (!read) return std::nullopt;
  // The form of an IPv4 address on an IPv6 socket.
  constexpr std::string_view kMapped = "::ffff:";
  const std::string_view text = host.data();
  return Endpoint{std::string(text.starts_with(kMapped) ? text.substr(kMapped.size()) : text),
                  port.data()};
}

// Disables Nagle's algorithm. It fails only for a closed connection, which is detected later.
void prepare(const Socket& connection) {
  const int on = 1;
  setsockopt(connection.fd(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

// False on failure, with the reason in *why.
bool finish_connecting(const Socket& connection, Deadline deadline, std::string* why) {
  std::array<pollfd, 1> ready{{{connection.fd(), POLLOUT, 0}}};
  if (!wait_for(ready, deadline)) {
    *why = "no answer";
    return false;
  }
  int error = 0;
  socklen_t size = sizeof error;
  getsockopt(connection.fd(), SOL_SOCKET, SO_ERROR, &error, &size);
  *why = std::strerror(error);
  return error == 0;
}

// Moves all bytes; Move is send() or recv().
template <class Byte, class Move>
bool move_all(const Socket& connection, std::span<Byte> bytes, short event, Deadline deadline,
              const Move& move) {
  while (!bytes.empty()) {
    const auto moved = move(connection.fd(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (moved > 0) {
      bytes = bytes.subspan(static_cast<std::size_t>(moved));
      continue;
    }
    if (moved < 0 && errno == EINTR) continue;
    if (moved == 0 || (errno != EAGAIN && errno != EWOULDBLOCK)) return false;
    std::array<pollfd, 1> ready{{{connection.fd(), event, 0}}};
    if (!wait_for(ready, deadline)) return false;
  }
  return true;
}

}  // namespace

Socket::~Socket() {
  if (fd_ >= 0) ::close(fd_);
}

// Connecting a datagram socket sends nothing, but selects a route and thus a local address.
std::string address_towards(const std::string& host) {
  const auto found = look_up({host, "1"}, SOCK_DGRAM);
  if (!found) return "";
  const Socket one(socket(found->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!one || connect(one.fd(), found->ai_addr, found->ai_addrlen) != 0) return "";
  const auto name = name_of(one.fd(), getsockname);
  return name ? name->host : "";
}

std::string host_name() {
  std::array<char, 256> name{};
  gethostname(name.data(), name.size() - 1);
  return name.data();
}

std::string peer_address(const Socket& connection) {
  const auto name = name_of(connection.fd(), getpeername);
  return name ? name->host : "";
}

std::string own_port(const Socket& socket) {
  const auto name = name_of(socket.fd(), getsockname);
  require(name.has_value(), "cannot read the port of a socket: {}", last_error());
  return name->port;
}

// An IPv6 socket also accepts IPv4 connections; machines without IPv6 get an IPv4 socket.
// SO_REUSEADDR makes the port of a job that has just ended available at once.
std::optional<Socket> listen_at(int port, std::string* why) {
  sockaddr_in6 all{};
  all.sin6_family = AF_INET6;
  all.sin6_addr = in6addr_any;
  all.sin6_port = htons(static_cast<std::uint16_t>(port));
  sockaddr_in all4{};
  all4.sin_family = AF_INET;
  all4.sin_port = all.sin6_port;
  const int off = 0, on = 1;
  const auto bind_to = [&](const Socket& one, const auto& address) {
    return one && setsockopt(one.fd(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) == 0 &&
           bind(one.fd(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
  };
  Socket one(socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  bool bound = one && setsockopt(one.fd(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off) == 0 &&
               bind_to(one, all);
  if (!bound && errno != EADDRINUSE) {
    one = Socket(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    bound = bind_to(one, all4);
  }
  if (bound && listen(one.fd(), SOMAXCONN) == 0) return one;
  *why = last_error();
  return std::nullopt;
}

Socket listen_anywhere() {
  std::string why;
  auto one = listen_at(0, &why);
  require(one.has_value(), "cannot listen at any port: {}", why);
  return std::move(*one);
}

std::optional<Socket> accept_now(const Socket& listener) {
  Socket connection(accept4(listener.fd(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!connection) return std::nullopt;
  prepare(connection);
  return connection;
}

std::optional<Socket> connect_to(const Endpoint& to, Deadline deadline, std::string* why) {
  *why = "the host has no address";
  const auto found = look_up(to, SOCK_STREAM);
  int left = 0;
  for (const auto* one = found.get(); one != nullptr; one = one->ai_next) ++left;
  for (const auto* one = found.get(); one != nullptr; one = one->ai_next, --left) {
    // Divides the time among the addresses, so that one without an answer leaves time for the rest.
    const auto now = std::chrono::steady_clock::now();
    const auto until = now + (deadline - now) / left;
    Socket connection(socket(one->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!connection) continue;
    const int status = connect(connection.fd(), one->ai_addr, one->ai_addrlen);
    if (status != 0 && errno != EINPROGRESS) {
      *why = last_error();
      continue;
    }
    if (!finish_connecting(connection, until, why)) continue;
    prepare(connection);
    return connection;
  }
  return std::nullopt;
}

void send_now(const Socket& connection, std::span<const std::byte> bytes) {
  static_cast<void>(
      ::send(connection.fd(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT));
}

bool send_all(const Socket& connection, std::span<const std::byte> bytes, Deadline deadline) {
  return move_all(connection, bytes, POLLOUT, deadline, send);
}

bool receive_all(const Socket& connection, std::span<std::byte> bytes, Deadline deadline) {
  return move_all(connection, bytes, POLLIN, deadline, recv);
}

bool wait_for(std::span<pollfd> all, Deadline deadline) {
  auto left = deadline - std::chrono::steady_clock::now();
  return wait_for(all, left);
}

bool wait_for(std::span<pollfd> all, Deadline::duration& left) {
  constexpr std::chrono::milliseconds kLongest{100};  // between checks for a request to stop
  for (;;) {
    throw_if_interrupted();
    if (left.count() <= 0) return false;
    const auto part = std::min(std::chrono::ceil<std::chrono::milliseconds>(left), kLongest);
    const auto before = std::chrono::steady_clock::now();
    const int ready = poll(all.data(), all.size(), static_cast<int>(part.count()));
    const bool nothing = ready == 0 || (ready < 0 && errno == EINTR);
    require(ready > 0 || nothing, "waiting for a socket failed: {}", last_error());
    left -= std::min<Deadline::duration>(std::chrono::steady_clock::now() - before, part);
    if (ready > 0) return true;
  }
}

}  // namespace shoal
