#include "shoal/core/error.h"
#include "shoal/sync/ranks.h"
#include "src/sync/meeting.h"
#include "src/sync/ring_ranks.h"
#include "src/sync/socket_ring.h"

namespace shoal {

std::unique_ptr<Ranks> make_tcp_ranks(const TcpRanksOptions& options) {
  require(options.count == 1 || !options.address.empty(),
          "{} processes on several hosts are to meet, and nothing says where; give all of them "
          "MASTER_ADDR, the first host's name (mpirun -x MASTER_ADDR=host)",
          options.count);
  return std::make_unique<RingRanks>(options.rank, options.count, [options] {
    const auto listener = listen_anywhere();
    const auto met = meet(options, listener);
    return std::make_unique<SocketRing>(options.rank, options.count, listener, met.next, met.token,
                                        options.timeout);
  });
}

}  // namespace shoal
