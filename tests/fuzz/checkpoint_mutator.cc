// Mutates the header or the elements of a checkpoint, and corrects the length of the header. Among
// random mutations of bytes, hardly any header would reach the parser.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

#include "runners/checkpoint_format.h"

// NOLINTBEGIN(readability-identifier-naming): libFuzzer's names
extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t most);

namespace {

std::string mutated(std::string_view bytes, std::size_t most) {
  std::string text(std::max(most, bytes.size()), '\0');
  std::ranges::copy(bytes, text.begin());
  auto* data = reinterpret_cast<std::uint8_t*>(text.data());
  text.resize(LLVMFuzzerMutate(data, bytes.size(), most));
  return text;
}

}  // namespace

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size,
                                               std::size_t most, unsigned seed) {
  const std::size_t before = shoal::kCheckpointMagic.size() + sizeof(std::uint64_t);
  std::uint64_t length = 0;
  if (size >= before) std::memcpy(&length, data + before - sizeof length, sizeof length);
  if (size < before || length > size - before || most < size || seed % 16 == 0)
    return LLVMFuzzerMutate(data, size, most);
  const std::string_view rest(reinterpret_cast<const char*>(data) + before, size - before);
  std::string header(rest.substr(0, length)), elements(rest.substr(length));
  const std::size_t room = most - size;
  if (seed % 4 == 1)
    elements = mutated(elements, elements.size() + room);
  else
    header = mutated(header, header.size() + room);
  length = header.size();
  std::memcpy(data + before - sizeof length, &length, sizeof length);
  std::ranges::copy(header + elements, data + before);
  return before + header.size() + elements.size();
}
// NOLINTEND(readability-identifier-naming)
