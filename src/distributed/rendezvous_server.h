#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "shoal/distributed/process_group.h"
#include "src/distributed/acceptor.h"
#include "src/distributed/handshake.h"
#include "src/distributed/sockets.h"

namespace shoal {

// Identifies a job on the wire.
std::uint64_t job_number(const TcpGroupOptions& options);
// "127.0.0.1 port 29500"
std::string rendezvous_address(const TcpGroupOptions& options);

// Time after which a waiting process reports what it waits for.
std::chrono::milliseconds notice_after(const TcpGroupOptions& options);

// Process 0's side of the rendezvous. Foreign connections are rejected and delay no process.
class RendezvousServer {
 public:
  // ring_port: where process 0 accepts the previous process of the ring.
  RendezvousServer(const TcpGroupOptions& options, Socket listener, std::string ring_port);
  ~RendezvousServer();

  struct Ring {
    std::uint64_t token;
    Endpoint next;  // process 1
  };
  // Waits for all other processes and sends each its neighbour. Afterwards a thread answers late
  // processes. At the deadline it reports the first missing process to all others and throws
  // RankError. Call once.
  Ring admit_all(Deadline deadline);

 private:
  struct Peer {
    Socket connection;
    Endpoint ring;
  };
  int missing();
  [[noreturn]] void give_up_on(int absent) const;
  void admit(Acceptor::Arrival arrival);
  Reply refusal(const Hello& hello, const std::string& host);
  void forget_closed();
  void note(const std::string& text) const;
  Ring complete();
  void answer_late_processes();

  TcpGroupOptions options_;
  Socket listener_;
  std::string ring_port_;
  Acceptor acceptor_;
  std::vector<std::optional<Peer>> peers_;  // by rank
  std::vector<pollfd> watched_;             // their connections, closed when they die
  std::set<int> reported_;                  // ranks for which a second process has connected
  bool complete_ = false;
  Socket stop_;  // an eventfd
  std::thread thread_;
};

}  // namespace shoal
