#include "src/distributed/socket_ring.h"

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "src/distributed/acceptor.h"
#include "src/distributed/handshake.h"

namespace shoal {
namespace {

using Clock = std::chrono::steady_clock;

// Polls before a process sleeps, because waking up takes longer than a message on a fast network.
constexpr int kLooks = 500;

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

// Sends or receives without blocking; false: the connection is closed.
template <class Move>
bool move_on(Progress& progress, const Socket& connection, const Move& move) {
  while (progress.rest() > 0) {
    msghdr message{};
    message.msg_iov = progress.parts.data();
    message.msg_iovlen = progress.parts.size();
    const auto moved = move(connection.fd(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (moved < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return true;
    if (moved < 0 && errno == EINTR) continue;
    if (moved <= 0) return false;
    progress.advance(static_cast<std::size_t>(moved));
  }
  return true;
}

}  // namespace

SocketRing::SocketRing(int place, int count, const Socket& listener, const Endpoint& next,
                       std::uint64_t token, std::chrono::milliseconds timeout)
    : Ring(place, count, timeout) {
  const auto deadline = Clock::now() + timeout;
  std::string why;
  auto connection = connect_to(next, deadline, &why);
  if (!connection)
    fail(next_place(),
         fmt::format("cannot be reached at {} port {}: {}; the machines must accept connections "
                     "from each other at any port: check firewalls",
                     next.host, next.port, why));
  next_ = std::move(*connection);
  if (!send_all(next_, bytes_of(RingHello{token, place}), deadline))
    fail(next_place(), "has closed its connection");
  Acceptor acceptor(listener, {.record = kRingHelloBytes});
  while (!before_) {
    auto arrival = acceptor.next(deadline);
    if (!arrival) fail(place_before(), "has not connected");
    const auto hello = parse_ring_hello(arrival->record);
    if (hello && hello->token == token && hello->rank == place_before())
      before_ = std::move(arrival->connection);
  }
}

void SocketRing::pass(const Act& act, std::span<const std::byte> out, std::span<std::byte> in) {
  Act theirs;
  const auto part = [](const void* data, std::size_t size) {
    return iovec{const_cast<void*>(data), size};
  };
  Progress sent{{part(&act, sizeof act), part(out.data(), out.size())}};
  Progress received{{part(&theirs, sizeof theirs), part(in.data(), in.size())}};
  // A process that deviates may send less, or have exited: its header is checked first.
  bool known = false;
  int looks = 0;
  Clock::duration left = timeout();
  for (;;) {
    const bool comes = move_on(received, before_, recvmsg);
    if (!known && received.parts[0].iov_len == 0) {
      known = true;
      if (theirs != act) fail_for_difference(theirs, act);
    }
    if (!comes) fail(place_before(), "has closed its connection");
    if (!move_on(sent, next_, sendmsg)) fail(next_place(), "has closed its connection");
    if (sent.rest() == 0 && received.rest() == 0) return;
    if (++looks < kLooks) continue;
    std::array<pollfd, 2> ready{{{sent.rest() > 0 ? next_.fd() : -1, POLLOUT, 0},
                                 {received.rest() > 0 ? before_.fd() : -1, POLLIN, 0}}};
    if (!wait_for(ready, left))
      fail_for_lateness(received.rest() > 0 ? place_before() : next_place());
  }
}

}  // namespace shoal
