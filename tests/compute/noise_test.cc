#include "src/compute/noise.h"

#include <gtest/gtest.h>

#include "shoal/core/rng.h"

namespace shoal {
namespace {

// Recorded runs depend on this layout: the tick is the low half of the counter; the high half is
// the number's block of four above 40 bits of the environment.
TEST(NoiseTest, IsANumberOfItsOwnBlock) {
  const std::uint64_t seed = 0x0123456789ABCDEF;
  for (const std::int64_t env : {std::int64_t{0}, std::int64_t{3}, (std::int64_t{1} << 40) - 1}) {
    for (const std::int64_t tick : {std::int64_t{0}, std::int64_t{1} << 35}) {
      for (std::int64_t number = 0; number < 40; ++number) {
        const auto high =
            static_cast<std::uint64_t>(number / 4) << 40 | static_cast<std::uint64_t>(env);
        const auto block = philox(seed, static_cast<std::uint64_t>(tick), high);
        EXPECT_EQ(noise_uniform(seed, env, tick, number),
                  to_unit_float(block[static_cast<std::size_t>(number % 4)]));
      }
    }
  }
}

// A known answer at compile time: kernels call the same function.
static_assert(philox_block(0x299F31D0A4093822, 0x85A308D3243F6A88, 0x0370734413198A2E).word[0] ==
              0xD16CFE09U);
static_assert(to_unit_float(0x80000000U) == 0.5F);

}  // namespace
}  // namespace shoal
