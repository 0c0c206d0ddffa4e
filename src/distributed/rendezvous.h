#pragma once

#include <cstdint>
#include <memory>

#include "shoal/distributed/process_group.h"
#include "src/distributed/rendezvous_server.h"
#include "src/distributed/sockets.h"

namespace shoal {

// The result of a completed rendezvous for one process.
struct Joined {
  Endpoint next;            // the next process of the ring
  std::uint64_t token = 0;  // of the ring
  // In process 0; answers late processes during its lifetime.
  std::unique_ptr<RendezvousServer> server = nullptr;
};

// Joins the job: each process sends process 0 the port of its `ring_listener`, and receives the
// address of the next process of the ring once all have joined. Throws RankError with the process
// that did not join in time, and Error if another process has this rank, or another job this port.
//
// Process 0 listens at the rendezvous address. If a launcher has a store (c10d::TCPStore) there,
// process 0 listens at any port and publishes its address in the store. The store outlives
// restarted processes, so the address may be stale: a process that gets no answer reads it again.
Joined join_job(const TcpGroupOptions& options, const Socket& ring_listener);

}  // namespace shoal
