#include <utility>

#include "shoal/core/error.h"
#include "shoal/distributed/process_group.h"
#include "src/distributed/rendezvous.h"
#include "src/distributed/ring_group.h"
#include "src/distributed/socket_ring.h"

namespace shoal {
namespace {

class TcpRing : public SocketRing {
 public:
  TcpRing(const TcpGroupOptions& o, const Socket& listener, Joined joined)
      : SocketRing(o.rank, o.count, listener, joined.next, joined.token, o.timeout),
        server_(std::move(joined.server)) {}

 private:
  std::unique_ptr<RendezvousServer> server_;  // answers late processes while the group exists
};

}  // namespace

std::unique_ptr<ProcessGroup> make_tcp_group(const TcpGroupOptions& options) {
  require(options.count == 1 || !options.address.empty(),
          "{} processes run on several hosts, but no rendezvous address is set; set MASTER_ADDR to "
          "the first host's name in all of them (mpirun -x MASTER_ADDR=host)",
          options.count);
  return std::make_unique<RingGroup>(options.rank, options.count, [options] {
    const auto listener = listen_anywhere();
    return std::make_unique<TcpRing>(options, listener, join_job(options, listener));
  });
}

}  // namespace shoal
