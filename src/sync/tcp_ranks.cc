#include <ATen/ATen.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <random>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "shoal/core/error.h"
#include "shoal/sync/ranks.h"
#include "src/sync/socket_ring.h"
#include "src/sync/sums.h"

namespace shoal {
namespace {

// Below, what one passes on at a time is sent whole, which takes half as many passes.
constexpr std::size_t kSmall = 32 * 1024;

class TcpRanks : public Ranks {
 public:
  explicit TcpRanks(TcpRanksOptions options) : options_(std::move(options)) {
    require(options_.count >= 1 && options_.rank >= 0 && options_.rank < options_.count,
            "rank {} of {}: a number from 0 to {} was expected", options_.rank, options_.count,
            options_.count - 1);
  }

  int rank() const override { return options_.rank; }
  int count() const override { return options_.count; }

  void sum(at::Tensor x) override {
    if (count() == 1) return require_summable(x);
    sum_numbers(x, [this](auto numbers) { sum_of(numbers); });
  }

  std::vector<std::vector<std::byte>> gather(std::span<const std::byte> own) override {
    std::vector<std::uint64_t> sizes(static_cast<std::size_t>(count()));
    sizes[static_cast<std::size_t>(rank())] = own.size();
    std::vector<std::vector<std::byte>> all(sizes.size());
    all[static_cast<std::size_t>(rank())].assign(own.begin(), own.end());
    if (count() == 1) return all;
    pass_around(begin(kGather, sizeof(std::uint64_t)),
                [&](std::size_t of) { return std::as_writable_bytes(std::span(&sizes[of], 1)); });
    for (std::size_t r = 0; r < all.size(); ++r) all[r].resize(sizes[r]);
    pass_around(begin(kGather, 0), [&](std::size_t of) { return std::span(all[of]); });
    return all;
  }

 private:
  enum Kind : std::uint32_t { kSum, kGather };

  SocketRing::Act begin(Kind kind, std::size_t size) { return {kind, acts_++, size}; }

  // Where a piece is that is `back` places behind this rank's.
  std::size_t behind(int back) const {
    return static_cast<std::size_t>((rank() - back + 2 * count()) % count());
  }

  // Each rank has piece of(rank); afterwards all have all.
  template <class Of>
  void pass_around(const SocketRing::Act& act, const Of& of, int first = 0) {
    for (int step = 0; step < count() - 1; ++step)
      ring().pass(act, of(behind(step - first)), of(behind(step + 1 - first)));
  }

  template <class T>
  void sum_of(std::span<T> x) {
    const auto act = begin(kSum, x.size_bytes());
    const auto n = x.size(), ranks = static_cast<std::size_t>(count());
    if (x.size_bytes() <= kSmall) {
      std::vector<T> all(n * ranks);
      std::ranges::copy(x, all.begin() + static_cast<std::ptrdiff_t>(n) * rank());
      pass_around(act, [&](std::size_t of) {
        return std::as_writable_bytes(std::span(all).subspan(n * of, n));
      });
      std::copy_n(all.begin(), n, x.begin());
      for (std::size_t r = 1; r < ranks; ++r)
        for (std::size_t i = 0; i < n; ++i) x[i] += all[n * r + i];
      return;
    }
    // Each piece goes around once while it is added up, and once more to all (Patarasuk and Yuan,
    // 2009): whoever has a sum has it from the same one.
    const auto piece = [&](std::size_t of) {
      return x.subspan(n * of / ranks, n * (of + 1) / ranks - n * of / ranks);
    };
    std::vector<T> came(n / ranks + 1);
    for (int step = 0; step < count() - 1; ++step) {
      const auto own = piece(behind(step + 1));
      const auto other = std::span(came).first(own.size());
      ring().pass(act, std::as_bytes(piece(behind(step))), std::as_writable_bytes(other));
      for (std::size_t i = 0; i < own.size(); ++i) own[i] += other[i];
    }
    pass_around(
        act, [&](std::size_t of) { return std::as_writable_bytes(piece(of)); }, /*first=*/1);
  }

  // Made when it is first needed: the store has a thread, and nothing may be forked after that.
  SocketRing& ring() {
    if (!ring_) connect();
    return *ring_;
  }

  void connect() {
    const auto& o = options_;
    int missing = 0;
    try {
      c10d::TCPStoreOptions store_options;
      store_options.port = static_cast<std::uint16_t>(o.port);
      store_options.isServer = !o.store_exists && rank() == 0;
      store_options.waitWorkers = false;
      store_options.timeout = o.timeout;
      store_ = c10::make_intrusive<c10d::PrefixStore>(
          fmt::format("shoal/{}", o.attempt),
          c10::make_intrusive<c10d::TCPStore>(o.address, store_options));
      if (rank() == 0) store_->set("token", std::to_string(std::random_device{}()));
      const auto token = std::stoull(store_->get_to_str("token"));
      const auto own = address_towards(o.address, o.port).address;
      ring_.emplace(rank(), count(), own, token, o.timeout, [&](const Endpoint& endpoint) {
        store_->set(fmt::format("rank{}", rank()), endpoint.address + " " + endpoint.port);
        missing = (rank() + 1) % count();
        const auto next = store_->get_to_str(fmt::format("rank{}", missing));
        const auto space = next.find(' ');
        return Endpoint{next.substr(0, space), next.substr(space + 1)};
      });
    } catch (const c10::Error& e) {
      throw RankError(
          fmt::format("process {} of {} was not met at {} port {} within {:.0f} s: {}", missing,
                      count(), o.address, o.port, std::chrono::duration<double>(o.timeout).count(),
                      e.what_without_backtrace()),
          missing);
    }
  }

  TcpRanksOptions options_;
  c10::intrusive_ptr<c10d::Store> store_;  // that of rank 0 may be the server
  std::optional<SocketRing> ring_;
  std::uint32_t acts_ = 0;
};

}  // namespace

std::unique_ptr<Ranks> make_tcp_ranks(const TcpRanksOptions& options) {
  return std::make_unique<TcpRanks>(options);
}

}  // namespace shoal
