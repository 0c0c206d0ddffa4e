#include "tests/fuzz/fuzz.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <iostream>

namespace shoal::fuzz {

void expect(bool holds, std::string_view expected) {
  if (holds) return;
  std::cerr << "expected: " << expected << std::endl;
  std::abort();
}

void expect_one_line(std::string_view message) {
  constexpr std::size_t kLongest = 1000;
  const auto is_control = [](char c) { return std::iscntrl(static_cast<unsigned char>(c)) != 0; };
  if (message.size() <= kLongest && std::ranges::none_of(message, is_control)) return;
  std::cerr << message.size() << " bytes: " << message.substr(0, 2 * kLongest) << '\n';
  expect(false, "an error message of one line, at most 1000 bytes long");
}

}  // namespace shoal::fuzz
