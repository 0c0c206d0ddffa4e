#include "src/distributed/ring_group.h"

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <utility>

#include "shoal/core/error.h"
#include "src/distributed/sums.h"

namespace shoal {
namespace {

// Up to this size whole arrays are passed on, which takes half as many passes.
constexpr std::size_t kSmall = 32 * 1024;

}  // namespace

RingGroup::RingGroup(int rank, int count, Connect connect)
    : rank_(rank), count_(count), connect_(std::move(connect)) {
  require(count >= 1 && rank >= 0 && rank < count, "rank: found {} of {}, expected 0 to {}", rank,
          count, count - 1);
}

void RingGroup::sum(at::Tensor x) {
  if (count_ == 1) return require_summable(x);
  sum_numbers(x, [this](auto numbers) { sum_of(numbers); });
}

std::vector<std::vector<std::byte>> RingGroup::gather(std::span<const std::byte> own) {
  std::vector<std::uint64_t> sizes(static_cast<std::size_t>(count_));
  std::vector<std::vector<std::byte>> all(sizes.size());
  sizes[behind(0)] = own.size();
  all[behind(0)].assign(own.begin(), own.end());
  if (count_ == 1) return all;
  pass_around({Ring::kGather, acts_++, sizeof(std::uint64_t)},
              [&](std::size_t of) { return std::as_writable_bytes(std::span(&sizes[of], 1)); });
  for (std::size_t r = 0; r < all.size(); ++r) all[r].resize(sizes[r]);
  pass_around({Ring::kGather, acts_++, 0}, [&](std::size_t of) { return std::span(all[of]); });
  return all;
}

// The rank `back` places before this one.
std::size_t RingGroup::behind(int back) const {
  return static_cast<std::size_t>((rank_ - back + 2 * count_) % count_);
}

// All-gather: each rank starts with the piece of the rank `first` places ahead.
template <class Of>
void RingGroup::pass_around(const Ring::Act& act, const Of& of, int first) {
  for (int step = 0; step < count_ - 1; ++step)
    ring().pass(act, of(behind(step - first)), of(behind(step + 1 - first)));
}

template <class T>
void RingGroup::sum_small(std::span<T> x, const Ring::Act& act) {
  const auto n = x.size();
  std::vector<T> all(n * static_cast<std::size_t>(count_));
  std::ranges::copy(x, all.begin() + static_cast<std::ptrdiff_t>(n) * rank_);
  pass_around(act, [&](std::size_t of) {
    return std::as_writable_bytes(std::span(all).subspan(n * of, n));
  });
  std::copy_n(all.begin(), n, x.begin());
  for (std::size_t i = n; i < all.size(); ++i) x[i % n] += all[i];
}

// Reduce-scatter, then all-gather (Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms for
// clusters of workstations", 2009). One rank computes each sum, so all ranks have the same bits.
template <class T>
void RingGroup::sum_of(std::span<T> x) {
  const Ring::Act act{Ring::kSum, acts_++, x.size_bytes()};
  if (x.size_bytes() <= kSmall) return sum_small(x, act);
  const auto n = x.size(), ranks = static_cast<std::size_t>(count_);
  const auto piece = [&](std::size_t of) {
    return x.subspan(n * of / ranks, n * (of + 1) / ranks - n * of / ranks);
  };
  std::vector<T> came(n / ranks + 1);
  for (int step = 0; step < count_ - 1; ++step) {
    const auto own = piece(behind(step + 1));
    const auto other = std::span(came).first(own.size());
    ring().pass(act, std::as_bytes(piece(behind(step))), std::as_writable_bytes(other));
    for (std::size_t i = 0; i < own.size(); ++i) own[i] += other[i];
  }
  pass_around(
      act, [&](std::size_t of) { return std::as_writable_bytes(piece(of)); }, /*first=*/1);
}

Ring& RingGroup::ring() {
  if (!ring_) ring_ = connect_();
  return *ring_;
}

}  // namespace shoal
