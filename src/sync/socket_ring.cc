#include "src/sync/socket_ring.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <utility>

#include "shoal/core/error.h"
#include "shoal/core/rank_exchange.h"

namespace shoal {
namespace {

using Clock = std::chrono::steady_clock;
using Addresses = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

// errno is what it is when this is called: after what sets it, not in the same call as that.
std::string last_error() { return std::strerror(errno); }

Addresses look_up(const std::string& host, const std::string& port, int type) {
  addrinfo hints{};
  hints.ai_socktype = type;
  addrinfo* found = nullptr;
  const int status = getaddrinfo(host.c_str(), port.c_str(), &hints, &found);
  require(status == 0, "host '{}' has no address: {}", host, gai_strerror(status));
  return {found, &freeaddrinfo};
}

Endpoint name_of(int fd) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  std::array<char, NI_MAXHOST> host{};
  std::array<char, NI_MAXSERV> port{};
  auto* const any = reinterpret_cast<sockaddr*>(&address);
  const bool read = getsockname(fd, any, &size) == 0 &&
                    getnameinfo(any, size, host.data(), host.size(), port.data(), port.size(),
                                NI_NUMERICHOST | NI_NUMERICSERV) == 0;
  require(read, "the address of a socket cannot be read: {}", last_error());
  return {host.data(), port.data()};
}

void set_option(int fd, int level, int option, int value) {
  const bool set = setsockopt(fd, level, option, &value, sizeof value) == 0;
  require(set, "a socket cannot be set up: {}", last_error());
}

// Messages are sent at once, and waited for with poll().
void prepare(int fd) {
  set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1);
  const bool set = fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK) == 0;
  require(set, "a socket cannot be set up: {}", last_error());
}

// Whether something has happened to one of them before the deadline.
bool wait_for(std::span<pollfd> all, Clock::time_point deadline) {
  for (;;) {
    const auto rest = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
    if (rest <= 0) return false;
    const int ready = poll(all.data(), all.size(), static_cast<int>(std::min<long>(rest, 60'000)));
    if (ready > 0) return true;
    require(ready == 0 || errno == EINTR, "waiting for a socket failed: {}", last_error());
  }
}

Socket listen_at(const std::string& address) {
  const auto found = look_up(address, "0", SOCK_STREAM);
  Socket one(socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const bool listens = one.fd() >= 0 && bind(one.fd(), found->ai_addr, found->ai_addrlen) == 0 &&
                       listen(one.fd(), SOMAXCONN) == 0;
  require(listens, "this process cannot be reached at {}: {}", address, last_error());
  return one;
}

// It listens already, so that there is nothing to wait for but the way to it.
Socket connect_to(const Endpoint& to) {
  const auto found = look_up(to.address, to.port, SOCK_STREAM);
  Socket one(socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const bool there = one.fd() >= 0 && connect(one.fd(), found->ai_addr, found->ai_addrlen) == 0;
  require(there, "{} port {} cannot be connected to: {}", to.address, to.port, last_error());
  return one;
}

// So often it looks for more before it sleeps: to be woken up takes longer than what comes by a
// fast network.
constexpr int kLooks = 500;

// What a new connection begins with.
struct Hello {
  std::uint64_t token = 0;
  std::int64_t place = 0;
};

struct Progress {
  std::array<iovec, 2> parts;
  std::size_t rest() const { return parts[0].iov_len + parts[1].iov_len; }
  void advance(std::size_t bytes) {
    for (auto& part : parts) {
      const auto n = std::min(bytes, part.iov_len);
      part.iov_base = static_cast<std::byte*>(part.iov_base) + n;
      part.iov_len -= n;
      bytes -= n;
    }
  }
};

// Sends or receives what it can at once; false: the other end is gone.
template <class Move>
bool move_on(Progress& progress, int fd, const Move& move) {
  while (progress.rest() > 0) {
    msghdr message{};
    message.msg_iov = progress.parts.data();
    message.msg_iovlen = progress.parts.size();
    const auto moved = move(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (moved < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return true;
    if (moved < 0 && errno == EINTR) continue;
    if (moved <= 0) return false;
    progress.advance(static_cast<std::size_t>(moved));
  }
  return true;
}

}  // namespace

Socket::~Socket() {
  if (fd_ >= 0) ::close(fd_);
}

// A datagram socket that is connected sends nothing, but has chosen its way.
Endpoint address_towards(const std::string& host, int port) {
  const auto found = look_up(host, std::to_string(port), SOCK_DGRAM);
  const Socket one(socket(found->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  const bool there = one.fd() >= 0 && connect(one.fd(), found->ai_addr, found->ai_addrlen) == 0;
  require(there, "there is no way to host '{}': {}", host, last_error());
  return name_of(one.fd());
}

SocketRing::SocketRing(int place, int count, const std::string& own_address, std::uint64_t token,
                       std::chrono::milliseconds timeout,
                       const std::function<Endpoint(const Endpoint& own)>& exchange)
    : Ring(place, count, timeout) {
  const auto listener = listen_at(own_address);
  next_ = connect_to(exchange(name_of(listener.fd())));
  const Hello hello{token, place};
  const auto bytes = std::as_bytes(std::span(&hello, 1));
  if (send(next_.fd(), bytes.data(), bytes.size(), MSG_NOSIGNAL) != std::ssize(bytes))
    fail(next_place(), "has closed its connection");
  const auto deadline = Clock::now() + timeout;
  while (before_.fd() < 0) {
    std::array<pollfd, 1> ready{{{listener.fd(), POLLIN, 0}}};
    if (!wait_for(ready, deadline)) fail(place_before(), "has not come");
    Socket guest(accept4(listener.fd(), nullptr, nullptr, SOCK_CLOEXEC));
    if (guest.fd() < 0) continue;
    // A stranger has a second to say something else, or nothing.
    constexpr timeval kPatience{1, 0};
    setsockopt(guest.fd(), SOL_SOCKET, SO_RCVTIMEO, &kPatience, sizeof kPatience);
    Hello said;
    const auto n = recv(guest.fd(), &said, sizeof said, MSG_WAITALL);
    if (n == sizeof said && said.token == token && said.place == place_before())
      before_ = std::move(guest);
  }
  prepare(next_.fd());
  prepare(before_.fd());
}

void SocketRing::pass(const Act& act, std::span<const std::byte> out, std::span<std::byte> in) {
  Act theirs;
  const auto part = [](const void* data, std::size_t size) {
    return iovec{const_cast<void*>(data), size};
  };
  Progress sent{{part(&act, sizeof act), part(out.data(), out.size())}};
  Progress received{{part(&theirs, sizeof theirs), part(in.data(), in.size())}};
  // Who does something else may send less: what it does is looked at as soon as it is known.
  bool known = false;
  int looks = 0;
  const auto deadline = Clock::now() + timeout();
  for (;;) {
    if (!move_on(sent, next_.fd(), sendmsg)) fail(next_place(), "has closed its connection");
    if (!move_on(received, before_.fd(), recvmsg))
      fail(place_before(), "has closed its connection");
    if (!known && received.parts[0].iov_len == 0) {
      known = true;
      if (theirs != act) fail_for_difference(theirs, act);
    }
    if (sent.rest() == 0 && received.rest() == 0) return;
    if (++looks < kLooks) continue;
    std::array<pollfd, 2> ready{{{sent.rest() > 0 ? next_.fd() : -1, POLLOUT, 0},
                                 {received.rest() > 0 ? before_.fd() : -1, POLLIN, 0}}};
    if (!wait_for(ready, deadline))
      fail_for_lateness(received.rest() > 0 ? place_before() : next_place());
  }
}

}  // namespace shoal
