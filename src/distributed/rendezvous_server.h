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

// As processes of a job know it.
std::uint64_t job_number(const TcpGroupOptions& options);
// "127.0.0.1 port 29500"
std::string rendezvous_address(const TcpGroupOptions& options);

// When a process that waits says what it waits for.
std::chrono::milliseconds notice_after(const TcpGroupOptions& options);

// Process 0's side of the rendezvous. Connections of strangers are rejected, and delay nobody.
class RendezvousServer {
 public:
  // ring_port: at which process 0 waits for its neighbour in the ring.
  RendezvousServer(const TcpGroupOptions& options, Socket listener, std::string ring_port);
  ~RendezvousServer();

  struct Ring {
    std::uint64_t token;
    Endpoint next;  // process 1
  };
  // Waits for all other processes, and tells each its neighbour. Throws RankError with the first
  // one that has not come by the deadline, after it has told those that have. From then on a thread
  // answers processes that come too late. Call once.
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
  std::vector<pollfd> watched_;             // their connections, which close when they die
  std::set<int> reported_;                  // ranks of which a second process has come
  bool complete_ = false;
  Socket stop_;  // an eventfd
  std::thread thread_;
};

}  // namespace shoal
