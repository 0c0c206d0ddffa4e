#include "shoal/core/rng.h"

#include <cmath>

#include "shoal/core/error.h"

namespace shoal {

namespace {

constexpr int kRounds = 10;
constexpr std::uint32_t kMultiplier0 = 0xD2511F53U, kMultiplier1 = 0xCD9E8D57U;
constexpr std::uint32_t kWeyl0 = 0x9E3779B9U, kWeyl1 = 0xBB67AE85U;

// High half of the counters that make environment seeds. An Rng counts below 2^64, where this half
// is 0, so a seed that also keys an Rng gives unrelated numbers there.
constexpr std::uint64_t kSeedDomain = 1;

std::uint32_t low_half(std::uint64_t x) { return static_cast<std::uint32_t>(x); }
std::uint32_t high_half(std::uint64_t x) { return static_cast<std::uint32_t>(x >> 32); }

std::uint64_t draw64(Rng& rng) {
  const std::uint64_t high = rng();
  return high << 32 | rng();
}

}  // namespace

std::array<std::uint32_t, 4> philox(std::uint64_t key, std::uint64_t counter_low,
                                    std::uint64_t counter_high) {
  std::array<std::uint32_t, 4> x = {low_half(counter_low), high_half(counter_low),
                                    low_half(counter_high), high_half(counter_high)};
  std::uint32_t key0 = low_half(key), key1 = high_half(key);
  for (int round = 0; round < kRounds; ++round) {
    const auto product0 = std::uint64_t{kMultiplier0} * x[0];
    const auto product1 = std::uint64_t{kMultiplier1} * x[2];
    x = {high_half(product1) ^ x[1] ^ key0, low_half(product1), high_half(product0) ^ x[3] ^ key1,
         low_half(product0)};
    key0 += kWeyl0;
    key1 += kWeyl1;
  }
  return x;
}

std::uint64_t env_seed(std::uint64_t seed, Stream stream, std::int64_t index) {
  const auto high = kSeedDomain << 32 | static_cast<std::uint64_t>(stream);
  const auto bits = philox(seed, static_cast<std::uint64_t>(index), high);
  return std::uint64_t{bits[0]} << 32 | bits[1];
}

std::uint64_t slice_seed(std::uint64_t seed, std::int64_t slice) {
  constexpr std::uint64_t kApart = 0x9e3779b97f4a7c15;
  return seed + static_cast<std::uint64_t>(slice) * kApart;
}

Rng::Rng(std::uint64_t key, std::uint64_t counter) : key_(key), counter_(counter) {
  if (counter_ % 4 != 0) block_ = philox(key_, counter_ / 4, 0);
}

Rng::result_type Rng::operator()() {
  if (counter_ % 4 == 0) block_ = philox(key_, counter_ / 4, 0);
  return block_[counter_++ % 4];
}

double Rng::uniform(double low, double high) {
  const double unit = static_cast<double>(draw64(*this) >> 11) * 0x1p-53;
  const double x = low + (high - low) * unit;
  return x < high ? x : std::nextafter(high, low);  // rounding may reach `high`
}

// Lemire, "Fast Random Integer Generation in an Interval", 2019: the high half of a product, with
// the few low halves that some results would get in excess rejected.
std::int64_t Rng::integer(std::int64_t low, std::int64_t high) {
  require(low < high, "random integer from [{}, {}): the range is empty", low, high);
  const auto range = static_cast<std::uint64_t>(high) - static_cast<std::uint64_t>(low);
  const auto excess = -range % range;  // 2^64 modulo range
  unsigned __int128 product = 0;
  do {
    product = static_cast<unsigned __int128>(draw64(*this)) * range;
  } while (static_cast<std::uint64_t>(product) < excess);
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(low) +
                                   static_cast<std::uint64_t>(product >> 64));
}

}  // namespace shoal
