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
  std::size_t record = 0;                    // size of the record that begins each connection
  std::chrono::milliseconds patience{5000};  // time limit for the record
  // Most connections with an incomplete record; the oldest is closed for a new one.
  std::size_t most = 64;
  // Sent before a connection is closed for either reason.
  std::vector<std::byte> rejection = {};
};

// Accepts connections and reads the first record of all of them concurrently: a connection that
// sends nothing delays no other, and costs only its record's memory and a file descriptor.
class Acceptor {
 public:
  // The listener must outlive it.
  Acceptor(const Socket& listener, AcceptorOptions options);

  struct Arrival {
    Socket connection;
    std::string host;  // the address of the other end
    std::vector<std::byte> record;
  };
  // The next connection whose record is complete. Nothing at the deadline, or when one of `others`
  // has events (in its revents).
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
