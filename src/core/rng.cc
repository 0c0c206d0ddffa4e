#include "shoal/core/rng.h"

#include <cmath>

#include "shoal/core/error.h"

namespace shoal {

namespace {

// Upper half of the counters that generate environment seeds. An Rng's counter stays below 2^64,
// where this half is 0, so a seed that also keys an Rng gives independent numbers there.
constexpr std::uint64_t kSeedDomain = 1;

std::uint64_t draw64(Rng& rng) {
  const std::uint64_t high = rng();
  return high << 32 | rng();
}

}  // namespace

std::array<std::uint32_t, 4> philox(std::uint64_t key, std::uint64_t counter_low,
                                    std::uint64_t counter_high) {
  const auto [x] = philox_block(key, counter_low, counter_high);
  return {x[0], x[1], x[2], x[3]};
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

// Lemire, "Fast Random Integer Generation in an Interval", 2019: the result is the high half of a
// product; the few low halves that would bias it are rejected.
std::int64_t Rng::integer(std::int64_t low, std::int64_t high) {
  require(low < high, "random integer from the empty range [{}, {}); expected low < high", low,
          high);
  const auto range = static_cast<std::uint64_t>(high) - static_cast<std::uint64_t>(low);
  const auto excess = -range % range;  // 2^64 mod range
  unsigned __int128 product = 0;
  do {
    product = static_cast<unsigned __int128>(draw64(*this)) * range;
  } while (static_cast<std::uint64_t>(product) < excess);
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(low) +
                                   static_cast<std::uint64_t>(product >> 64));
}

}  // namespace shoal
