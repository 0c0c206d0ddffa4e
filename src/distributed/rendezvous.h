#pragma once

#include <cstdint>
#include <memory>

#include "shoal/distributed/process_group.h"
#include "src/distributed/rendezvous_server.h"
#include "src/distributed/sockets.h"

namespace shoal {

// The result of a complete rendezvous, for one process.
struct Joined {
  Endpoint next;            // where to find the next one of the ring
  std::uint64_t token = 0;  // of this ring
  // Of process 0: while it lives, it answers processes that come too late.
  std::unique_ptr<RendezvousServer> server = nullptr;
};

// Joins the job: each process tells process 0 at which port it listens for its neighbour in the
// ring (`ring_listener`), and is told where the next one does once all have come. Throws RankError
// with the process that has not come in time; Error if there is no rendezvous for this process,
// because its rank, its job or its port are those of another one.
//
// Process 0 listens at the rendezvous address itself. Where a launcher has a store (c10d::TCPStore)
// there, it listens at any port, and the store says which. What is found there may be of processes
// that are no more, as the store outlives those that are started again: a process that reaches
// nobody looks again.
Joined join_job(const TcpGroupOptions& options, const Socket& ring_listener);

}  // namespace shoal
