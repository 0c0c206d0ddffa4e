#include "shoal/ipc/rank_exchange.h"

#if defined(__x86_64__)
#include <emmintrin.h>
#endif
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <new>

#include "shoal/core/error.h"
#include "shoal/core/stop.h"
#include "src/ipc/waiting.h"

namespace shoal {

namespace {

constexpr int kMostRanks = 1024;
constexpr std::size_t kLine = 64;
// Interval between checks for stop(): it wakes all waiters, but its caller may be killed before
// that.
constexpr std::chrono::milliseconds kLookAgain{100};

constexpr std::size_t round_up(std::size_t n, std::size_t to) { return (n + to - 1) / to * to; }

const RankExchangeOptions& checked(const RankExchangeOptions& options) {
  require(options.ranks >= 1 && options.ranks <= kMostRanks,
          "an exchange between {} ranks; expected 1 to {}", options.ranks, kMostRanks);
  require(options.chunk >= kLine, "RankExchangeOptions::chunk is {} bytes; expected at least {}",
          options.chunk, kLine);
  return options;
}

// Copies to cache-line-aligned shared memory that other cores read, with non-temporal stores.
// Moving a line between the caches of the cores, once to write and once to read it, costs four
// times as much as the way through memory (Zen 4, two cores: 507 us instead of 100 for a sum of 1
// MiB, 8.5 instead of 2.9 for 16 KiB).
template <class T>
void hand_over(const T* from, const T* end, T* to) {
#if !defined(__x86_64__) || defined(__SANITIZE_THREAD__)  // TSan does not see these stores
  std::copy(from, end, to);
#else
  constexpr auto kValues = sizeof(__m128i) / sizeof(T);
  for (; end - from >= static_cast<std::ptrdiff_t>(kValues); from += kValues, to += kValues)
    _mm_stream_si128(reinterpret_cast<__m128i*>(to),
                     _mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
  std::copy(from, end, to);
  _mm_sfence();  // the atomics that publish the data do not order non-temporal stores
#endif
}

// The begin of this rank's share of n values; shares begin on a cache line.
template <class T>
std::size_t share_begin(std::size_t n, int ranks, int rank) {
  const auto share =
      round_up((n + static_cast<std::size_t>(ranks) - 1) / static_cast<std::size_t>(ranks),
               kLine / sizeof(T));
  return std::min(n, share * static_cast<std::size_t>(rank));
}

class CountedWaiter {
 public:
  explicit CountedWaiter(Word& waiters) : waiters_(waiters) {
    waiters_.fetch_add(1, std::memory_order_seq_cst);
  }
  ~CountedWaiter() { waiters_.fetch_sub(1, std::memory_order_relaxed); }
  CountedWaiter(const CountedWaiter&) = delete;
  CountedWaiter& operator=(const CountedWaiter&) = delete;

 private:
  Word& waiters_;
};

}  // namespace

struct RankExchange::Head {
  alignas(kLine) Word stopped{0};
};

struct alignas(kLine) RankExchange::Rank {
  Word generation{0};  // barriers this rank has reached; the others park on it
  Word waiters{0};     // ranks parked on `generation`
  std::atomic<std::uint64_t> act{0}, size{0}, number{0};  // current collective
};

std::size_t RankExchange::bytes(const RankExchangeOptions& options) {
  const auto ranks = static_cast<std::size_t>(checked(options).ranks);
  return sizeof(Head) + ranks * (sizeof(Rank) + 2 * round_up(options.chunk, kLine)) +
         2 * round_up(options.chunk, kLine);
}

RankExchange::RankExchange(std::byte* memory, const RankExchangeOptions& options)
    : memory_(memory), options_(checked(options)) {
  options_.chunk = round_up(options.chunk, kLine);
  new (memory_) Head;
  for (int r = 0; r < options.ranks; ++r) new (&slot(r)) Rank;
}

RankExchange RankExchange::of(int rank) const {
  require(rank >= 0 && rank < ranks(), "rank {}: expected a number from 0 to {}", rank,
          ranks() - 1);
  auto end = *this;
  end.rank_ = rank;
  return end;
}

RankExchange::Rank& RankExchange::slot(int rank) const {
  return reinterpret_cast<Rank*>(memory_ + sizeof(Head))[rank];
}

// Two buffers for each rank, and two for the sums, at index ranks().
std::byte* RankExchange::place(int rank, std::uint64_t chunk) const {
  const auto all = static_cast<std::size_t>(ranks());
  const auto before = static_cast<std::size_t>(rank) * 2 + chunk % 2;
  return memory_ + sizeof(Head) + all * sizeof(Rank) + before * options_.chunk;
}

void RankExchange::begin(Act act, std::size_t size) {
  auto& own = slot(rank_);
  own.act.store(static_cast<std::uint64_t>(act), std::memory_order_relaxed);
  own.size.store(size, std::memory_order_relaxed);
  own.number.store(acts_++, std::memory_order_relaxed);
}

// A barrier: a rank's writes before it are visible to all ranks after it.
void RankExchange::meet() {
  const auto now = ++generation_;
  auto& own = slot(rank_);
  own.generation.store(now, std::memory_order_seq_cst);
  if (own.waiters.load(std::memory_order_seq_cst) != 0) futex_wake_all(own.generation);
  for (int r = 0; r < ranks(); ++r)
    if (r != rank_) wait_for(r, now);
}

void RankExchange::wait_for(int rank, std::uint32_t generation) {
  auto& of = slot(rank);
  const auto& stopped = reinterpret_cast<const Head*>(memory_)->stopped;
  const auto come = [generation](std::uint32_t value) {  // the rank may be one barrier ahead
    return static_cast<std::int32_t>(value - generation) >= 0;
  };
  if (poll(of.generation, options_.spin, come)) return;
  const auto over = [&](std::uint32_t value) {
    return come(value) || stopped.load(std::memory_order_seq_cst) != 0;
  };
  const CountedWaiter counted(of.waiters);
  // The time left is counted, not measured: while the whole run is suspended none of it passes.
  for (auto left = options_.timeout; left.count() > 0;) {
    const auto part = std::min<std::chrono::milliseconds>(left, kLookAgain);
    if (park(of.generation, deadline_of(part), over)) break;
    throw_if_interrupted();
    left -= part;
  }
  if (!come(of.generation.load(std::memory_order_acquire))) give_up_on(rank);
}

void RankExchange::give_up_on(int rank) const {
  const auto& head = *reinterpret_cast<const Head*>(memory_);
  if (head.stopped.load(std::memory_order_seq_cst) != 0)
    throw RankError(
        fmt::format("rank {} ends because another rank has stopped the exchange", rank_), rank);
  throw RankError(
      fmt::format(
          "rank {} waits for rank {} for more than {:.1f} s, at barrier {}; is it stopped, or much "
          "slower? If this is not a hang, raise the timeout",
          rank_, rank, std::chrono::duration<double>(options_.timeout).count(), generation_),
      rank);
}

// Called between the first and the second barrier of a collective: no rank has begun the next one.
void RankExchange::compare() const {
  constexpr std::array<const char*, 4> kNames = {"sums", "gathers", "broadcasts",
                                                 "enters a barrier"};
  const auto say = [&](const Rank& r) {
    return fmt::format(
        "{} ({} bytes, as its number {})", kNames.at(r.act.load(std::memory_order_relaxed)),
        r.size.load(std::memory_order_relaxed), r.number.load(std::memory_order_relaxed));
  };
  const auto& own = slot(rank_);
  for (int r = 0; r < ranks(); ++r) {
    const auto& other = slot(r);
    if (own.act.load(std::memory_order_relaxed) == other.act.load(std::memory_order_relaxed) &&
        own.size.load(std::memory_order_relaxed) == other.size.load(std::memory_order_relaxed))
      continue;
    throw RankError(
        fmt::format("rank {} {} while rank {} {}; all ranks must call the same collectives", r,
                    say(other), rank_, say(own)),
        r);
  }
}

// In iteration k chunk k is copied, chunk k - 1 summed, and chunk k - 2 copied back.
template <class T>
void RankExchange::sum_of(std::span<T> values) {
  begin(Act::kSum, values.size_bytes());
  if (ranks() == 1) return;
  const auto length = options_.chunk / sizeof(T);
  const auto chunks = std::max<std::size_t>(1, (values.size() + length - 1) / length);
  struct Part {
    std::span<T> own;
    std::size_t from, to;  // this rank's share
  };
  const auto part = [&](std::size_t chunk) {
    const auto own =
        values.subspan(chunk * length, std::min(length, values.size() - chunk * length));
    return Part{own, share_begin<T>(own.size(), ranks(), rank_),
                share_begin<T>(own.size(), ranks(), rank_ + 1)};
  };
  const auto shared = [&](int rank, std::size_t chunk) {
    return reinterpret_cast<T*>(place(rank, chunks_ + chunk));
  };

  const auto give = [&](std::size_t chunk) {
    const auto p = part(chunk);
    auto* to = shared(rank_, chunk);
    hand_over<T>(p.own.data(), p.own.data() + p.from, to);
    hand_over<T>(p.own.data() + p.to, p.own.data() + p.own.size(), to + p.to);
  };
  const auto add = [&](std::size_t chunk) {
    const auto p = part(chunk);
    std::array<T, 8192 / sizeof(T)> sum;  // fits in the L1 cache
    for (auto from = p.from; from < p.to; from += sum.size()) {
      const auto n = std::min(sum.size(), p.to - from);
      const auto of = [&](int r) { return (r == rank_ ? p.own.data() : shared(r, chunk)) + from; };
      const T *first = of(0), *second = of(1);
      for (std::size_t i = 0; i < n; ++i) sum[i] = first[i] + second[i];
      for (int r = 2; r < ranks(); ++r) {
        const T* more = of(r);
        for (std::size_t i = 0; i < n; ++i) sum[i] += more[i];
      }
      std::copy_n(sum.data(), n, p.own.data() + from);
      hand_over<T>(sum.data(), sum.data() + n, shared(ranks(), chunk) + from);
    }
  };
  const auto take = [&](std::size_t chunk) {
    const auto p = part(chunk);
    const auto* sums = shared(ranks(), chunk);
    std::copy(sums, sums + p.from, p.own.data());
    std::copy(sums + p.to, sums + p.own.size(), p.own.data() + p.to);
  };

  for (std::size_t k = 0; k < chunks + 2; ++k) {
    if (k < chunks) give(k);
    if (k >= 1 && k <= chunks) add(k - 1);
    if (k >= 2) take(k - 2);
    if (k <= chunks) meet();
    if (k == 0) compare();
  }
  chunks_ += chunks;
}

void RankExchange::sum(std::span<float> values) { sum_of(values); }
void RankExchange::sum(std::span<double> values) { sum_of(values); }
void RankExchange::sum(std::span<std::int64_t> values) { sum_of(values); }

void RankExchange::gather(std::span<const std::byte> own, std::span<std::byte> to) {
  require(to.size() == own.size() * static_cast<std::size_t>(ranks()),
          "gather of {} bytes from each of {} ranks got a buffer of {} bytes; expected {}",
          own.size(), ranks(), to.size(), own.size() * static_cast<std::size_t>(ranks()));
  begin(Act::kGather, own.size());
  std::size_t from = 0;
  do {
    const auto n = std::min(options_.chunk, own.size() - from);
    hand_over(own.data() + from, own.data() + from + n, place(rank_, chunks_));
    meet();
    if (from == 0) compare();
    for (int r = 0; r < ranks(); ++r)
      std::copy_n(place(r, chunks_), n,
                  to.data() + static_cast<std::size_t>(r) * own.size() + from);
    ++chunks_;
    from += n;
  } while (from < own.size());
  meet();  // compare() must finish before any rank's next collective
}

void RankExchange::broadcast(std::span<std::byte> bytes) {
  begin(Act::kBroadcast, bytes.size());
  std::size_t from = 0;
  do {
    const auto n = std::min(options_.chunk, bytes.size() - from);
    if (rank_ == 0)
      hand_over<std::byte>(bytes.data() + from, bytes.data() + from + n, place(0, chunks_));
    meet();
    if (from == 0) compare();
    if (rank_ != 0) std::copy_n(place(0, chunks_), n, bytes.data() + from);
    ++chunks_;
    from += n;
  } while (from < bytes.size());
  meet();
}

void RankExchange::barrier() {
  begin(Act::kBarrier, 0);
  meet();
  compare();
  meet();
}

void RankExchange::stop() {
  reinterpret_cast<Head*>(memory_)->stopped.store(1, std::memory_order_seq_cst);
  for (int r = 0; r < ranks(); ++r) futex_wake_all(slot(r).generation);
}

}  // namespace shoal
