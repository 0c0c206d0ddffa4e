#include "src/core/print.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <string>

namespace shoal {
namespace {

constexpr int kBuffer = 4096, kBorder = 64;
constexpr int kRemembered = 7, kForgotten = 8, kOverrun = 9;

// Prints, in pieces of one length, more than the buffer of standard output holds to a full disk.
[[noreturn]] void print_to_full_disk(int length) {
  static std::array<char, kBuffer + 2 * kBorder> memory{};
  if (std::freopen("/dev/full", "w", stdout) == nullptr) std::_Exit(1);
  std::setvbuf(stdout, memory.data() + kBorder, _IOFBF, kBuffer);
  const std::string text(static_cast<std::size_t>(length), 'x');
  for (int printed = 0; printed < 4 * kBuffer; printed += length) print_output("{}", text);
  if (std::ferror(stdout) == 0) std::_Exit(kForgotten);
  for (int i = 0; i < kBorder; ++i)
    if (memory.at(i) != 0 || memory.at(kBorder + kBuffer + i) != 0) std::_Exit(kOverrun);
  std::_Exit(kRemembered);
}

TEST(Print, AFullDiskIsRememberedAndDoesNoHarm) {
  for (const int length : {1, 7, 64, 997, 4096, 5000})
    EXPECT_EXIT(print_to_full_disk(length), testing::ExitedWithCode(kRemembered), "") << length;
}

}  // namespace
}  // namespace shoal
