#include <ATen/ATen.h>
#include <gmock/gmock.h>

#include <array>
#include <memory>
#include <vector>

#include "shoal/distributed/process_group.h"
#include "shoal/ipc/rank_exchange.h"
#include "tests/distributed/rendezvous_store.h"
#include "tests/support/message_of.h"

namespace shoal {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// The exchange of one host.
class Host {
 public:
  explicit Host(int ranks)
      : options_{.ranks = ranks, .spin = 20, .timeout = std::chrono::seconds(20)},
        memory_(RankExchange::bytes(options_) / 64 + 1),
        exchange_(memory_[0].data(), options_) {}
  RankExchange of(int rank) const { return exchange_.of(rank); }

 private:
  struct alignas(64) Line : std::array<std::byte, 64> {};
  RankExchangeOptions options_;
  std::vector<Line> memory_;
  RankExchange exchange_;
};

TEST(MultiHostGroupTest, AreCountedThroughAndSumAndGatherAsOne) {
  constexpr int kHosts = 2, kEach = 3;
  const testing::RendezvousStore place;
  const std::array<Host, kHosts> hosts = {Host(kEach), Host(kEach)};
  const auto said = testing::in_threads(kHosts * kEach, [&](int r) {
    const int host = r / kEach, local = r % kEach;
    const auto ranks = make_multi_host_group(
        hosts[static_cast<std::size_t>(host)].of(local),
        local == 0 ? make_tcp_group(place.options(host, kHosts)) : nullptr, host, kHosts);
    if (ranks->rank() != r || ranks->count() != kHosts * kEach)
      throw std::runtime_error("wrong number");
    for (const std::int64_t n : {1, 5, 20'000}) {
      auto x = at::arange(n).add(r);
      ranks->sum(x);
      if (!x.equal(at::arange(n).mul(kHosts * kEach).add(15)))
        throw std::runtime_error("wrong sum");
    }
    const std::vector<std::byte> own(static_cast<std::size_t>(7 * r), static_cast<std::byte>(r));
    const auto all = ranks->gather(own);
    for (int other = 0; other < kHosts * kEach; ++other)
      if (all[static_cast<std::size_t>(other)] !=
          std::vector<std::byte>(static_cast<std::size_t>(7 * other),
                                 static_cast<std::byte>(other)))
        throw std::runtime_error("wrong bytes");
  });
  EXPECT_THAT(said, Each(IsEmpty()));
}

TEST(MultiHostGroupTest, RefusesARankThatMaySpeakToOtherHostsAndCannotOrTheOtherWayRound) {
  const Host host(2);
  const auto first = [&] { make_multi_host_group(host.of(0), nullptr, 0, 2); };
  const auto second = [&] {
    make_multi_host_group(host.of(1), make_tcp_group({.count = 2}), 0, 2);
  };
  EXPECT_THAT(message_of(first), HasSubstr("rank 0 of host 0 of 2"));
  EXPECT_THAT(message_of(second), HasSubstr("rank 1 of host 0 of 2"));
}

}  // namespace
}  // namespace shoal
