#include <c10/util/Logging.h>
#include <fmt/format.h>

#include <random>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>
#include <utility>

#include "shoal/core/error.h"
#include "shoal/sync/ranks.h"
#include "src/sync/ring_ranks.h"
#include "src/sync/socket_ring.h"

namespace shoal {
namespace {

// c10d warns of addresses without a name, and of every wait; its errors are told all the same.
class QuietStore {
 public:
  QuietStore() : before_(std::exchange(FLAGS_caffe2_log_level, kFatal)) {}
  ~QuietStore() { FLAGS_caffe2_log_level = before_; }

 private:
  static constexpr int kFatal = 3;
  int before_;
};

// The ring and the store it was made by: that of rank 0 may be the server.
class TcpRing : public Ring {
 public:
  explicit TcpRing(const TcpRanksOptions& o) : Ring(o.rank, o.count, o.timeout) {
    const QuietStore quiet;
    int missing = 0;
    try {
      c10d::TCPStoreOptions options;
      options.port = static_cast<std::uint16_t>(o.port);
      options.isServer = !o.store_exists && o.rank == 0;
      options.waitWorkers = false;
      options.timeout = o.timeout;
      store_ = c10::make_intrusive<c10d::PrefixStore>(
          fmt::format("shoal/{}", o.attempt),
          c10::make_intrusive<c10d::TCPStore>(o.address, options));
      if (o.rank == 0) store_->set("token", std::to_string(std::random_device{}()));
      const auto token = std::stoull(store_->get_to_str("token"));
      const auto own = address_towards(o.address, o.port).address;
      missing = next_place();
      ring_ = std::make_unique<SocketRing>(
          o.rank, o.count, own, token, o.timeout, [&](const Endpoint& endpoint) {
            store_->set(fmt::format("rank{}", o.rank), endpoint.address + " " + endpoint.port);
            const auto next = store_->get_to_str(fmt::format("rank{}", missing));
            const auto space = next.find(' ');
            return Endpoint{next.substr(0, space), next.substr(space + 1)};
          });
    } catch (const c10::Error& e) {
      fail(missing, fmt::format("was not met at {} port {} within {:.0f} s: {}", o.address, o.port,
                                std::chrono::duration<double>(o.timeout).count(),
                                e.what_without_backtrace()));
    }
  }

  void pass(const Act& act, std::span<const std::byte> out, std::span<std::byte> in) override {
    ring_->pass(act, out, in);
  }

 private:
  c10::intrusive_ptr<c10d::Store> store_;
  std::unique_ptr<SocketRing> ring_;
};

}  // namespace

std::unique_ptr<Ranks> make_tcp_ranks(const TcpRanksOptions& options) {
  require(options.count == 1 || !options.address.empty(),
          "{} processes on several hosts are to meet, and nothing says where; give all of them "
          "MASTER_ADDR, the first host's name (mpirun -x MASTER_ADDR=host)",
          options.count);
  return std::make_unique<RingRanks>(options.rank, options.count,
                                     [options] { return std::make_unique<TcpRing>(options); });
}

}  // namespace shoal
