#pragma once

#include <arpa/inet.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include "src/distributed/sockets.h"

namespace shoal::testing {

// A connection to a port of this machine; the port may be opened a little later.
inline Socket stranger_at(int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  for (int attempt = 0; attempt < 1000; ++attempt) {
    Socket one(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const timeval longest{.tv_sec = 5, .tv_usec = 0};  // to wait for what it should receive
    setsockopt(one.fd(), SOL_SOCKET, SO_RCVTIMEO, &longest, sizeof longest);
    if (connect(one.fd(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0) return one;
    poll(nullptr, 0, 10);
  }
  throw std::runtime_error("not connected");
}

// Makes the connection's end a reset, instead of an orderly one.
inline void reset_at_end(const Socket& connection) {
  const linger at_once{.l_onoff = 1, .l_linger = 0};
  setsockopt(connection.fd(), SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
}

// Half of them reset.
inline void connect_and_close(int port, int times) {
  for (int i = 0; i < times; ++i) {
    const auto one = stranger_at(port);
    if (i % 2 == 0) reset_at_end(one);
  }
}

// A free port outside the ephemeral range.
inline int free_port() {
  static int last = 12'000 + getpid() % 8'000;
  std::string why;
  while (!listen_at(++last, &why)) {
  }
  return last;
}

}  // namespace shoal::testing
