#pragma once

#include <chrono>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "src/distributed/sockets.h"

namespace shoal {

struct AcceptorOptions {
  std::size_t record = 0;                    // bytes with which each connection begins
  std::chrono::milliseconds patience{5000};  // how long a connection may take to send them
  // Connections whose record has not arrived yet; when there are more, the oldest is closed.
  std::size_t most = 64;
  // Sent to a connection before it is closed for one of these two reasons.
  std::vector<std::byte> rejection = {};
};

// Accepts connections and reads the first bytes of each, of all of them at once: a connection that
// sends nothing delays no other, and costs no more than its record's memory and a file descriptor.
class Acceptor {
 public:
  // The listener must outlive it.
  Acceptor(const Socket& listener, AcceptorOptions options);

  struct Arrival {
    Socket connection;
    std::string host;  // the address of the other end
    std::vector<std::byte> record;
  };
  // The next connection whose record is complete. Nothing at the deadline, or once something has
  // happened to one of `others`, whose revents say so.
  std::optional<Arrival> next(Deadline deadline, std::span<pollfd> others = {});

 private:
  struct Pending {
    Arrival arrival;
    Deadline deadline;
    std::size_t received = 0;
  };
  void accept_waiting();
  bool close_oldest();
  void close_late();
  bool read(Pending& pending);
  void read_ready(std::span<const pollfd> ready);

  const Socket& listener_;
  AcceptorOptions options_;
  std::vector<Pending> pending_;  // the oldest first
  std::vector<Arrival> complete_;
  Deadline accepts_after_;
};

}  // namespace shoal
