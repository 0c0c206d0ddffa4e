#include <cstddef>
#include <cstdint>

#include "tests/fuzz/fuzz.h"

// NOLINTNEXTLINE(readability-identifier-naming): libFuzzer's name
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  shoal::fuzz::run({reinterpret_cast<const char*>(data), size});
  return 0;
}
