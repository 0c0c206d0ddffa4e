#pragma once

#include <array>
#include <cstdint>

#include "shoal/core/philox.h"

namespace shoal {

// Calls philox_block().
std::array<std::uint32_t, 4> philox(std::uint64_t key, std::uint64_t counter_low,
                                    std::uint64_t counter_high);

// Independent streams of one experiment. Evaluation never shares a training seed.
enum class Stream : std::uint32_t { kTrain = 0, kEval = 1 };

// The seed of environment `index`: a 64-bit mix, so that experiments with adjacent seeds share no
// environment seed.
std::uint64_t env_seed(std::uint64_t seed, Stream stream, std::int64_t index);
// The key of the random numbers drawn for one slice of the environments; slice 0 has the seed
// itself.
std::uint64_t slice_seed(std::uint64_t seed, std::int64_t slice);

// A stream of random numbers whose whole state is a key and a counter. Satisfies
// UniformRandomBitGenerator.
class Rng {
 public:
  using result_type = std::uint32_t;
  explicit Rng(std::uint64_t key = 0,
               std::uint64_t counter = 0);  // continues after `counter` numbers

  static constexpr result_type min() { return 0; }
  static constexpr result_type max() { return 0xFFFFFFFFU; }
  result_type operator()();

  double uniform(double low = 0, double high = 1);  // [low, high), 53 bits
  std::int64_t integer(
      std::int64_t low,
      std::int64_t high);  // {low, ..., high - 1}, unbiased; throws Error unless low < high

  std::uint64_t key() const { return key_; }
  std::uint64_t counter() const { return counter_; }  // numbers drawn so far

 private:
  std::uint64_t key_, counter_;
  std::array<std::uint32_t, 4> block_{};
};

}  // namespace shoal
