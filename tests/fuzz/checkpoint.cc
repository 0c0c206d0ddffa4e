// A checkpoint, unchanged and with a corrected checksum; tensors are only read with a valid one.
#include <ATen/ATen.h>

#include <cstdint>
#include <cstring>
#include <sstream>
#include <string>

#include "runners/checkpoint_format.h"
#include "tests/fuzz/fuzz.h"

namespace shoal::fuzz {
namespace {

bool accepts_checkpoint(const std::string& bytes) {
  return accepts([&] {
    std::istringstream in(bytes);
    const auto checkpoint = read_checkpoint(in, bytes.size());
    std::uint64_t elements = 0;
    for (const auto& [name, tensor] : checkpoint.tensors) elements += tensor.nbytes();
    expect(elements < bytes.size(), "no more elements than bytes");
  });
}

}  // namespace

void run(std::string_view input) {
  constexpr std::size_t kChecksum = sizeof(std::uint32_t);
  std::string bytes(input);
  if (accepts_checkpoint(bytes) || bytes.size() < kChecksum) return;
  const auto end = bytes.size() - kChecksum;
  const std::uint32_t crc = checksum(0, input.substr(0, end));
  std::memcpy(bytes.data() + end, &crc, kChecksum);
  accepts_checkpoint(bytes);
}

}  // namespace shoal::fuzz
