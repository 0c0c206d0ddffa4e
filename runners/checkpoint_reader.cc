#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "runners/checkpoint_format.h"
#include "runners/shallow_json.h"
#include "shoal/core/error.h"
#include "shoal/core/text.h"

namespace shoal {
namespace {

using nlohmann::json;

constexpr at::ScalarType kTypes[] = {at::kByte,  at::kBool,   at::kInt,     at::kLong,
                                     at::kFloat, at::kDouble, at::kBFloat16};
constexpr std::uint64_t kChecksum = sizeof(std::uint32_t);

// A tensor as described in the header.
struct StoredTensor {
  std::string name;
  at::ScalarType type = at::kFloat;
  std::vector<std::int64_t> shape = {};
  std::int64_t bytes = 0;
};

struct Header {
  Named<std::int64_t> counters;
  std::vector<StoredTensor> tensors;
  std::string algo = {};
};

at::ScalarType type_of(const std::string& name) {
  for (const auto type : kTypes)
    if (name == c10::toString(type)) return type;
  throw Error("unknown element type '{}'", one_line(name));
}

// A stream of which `rest` bytes are not read yet.
struct Input {
  std::istream& in;
  std::uint64_t rest;

  void read(void* to, std::uint64_t n, const std::string& what) {
    require(n <= rest, "{} is truncated", what);
    in.read(static_cast<char*>(to), static_cast<std::streamsize>(n));
    require(in.good(), "{} cannot be read: {}", what, std::strerror(errno));
    rest -= n;
  }
};

std::int64_t whole_number(const json& value, const std::string& what, std::int64_t low) {
  const bool fits = value.is_number_unsigned()
                        ? std::in_range<std::int64_t>(value.get<std::uint64_t>())
                        : value.is_number_integer();
  require(fits && value.get<std::int64_t>() >= low,
          "{}: found {}, expected a whole number of 64 bits{}", what, one_line(value.dump()),
          low == 0 ? ", 0 or more" : "");
  return value.get<std::int64_t>();
}

// The product and the strides of the shape, with zeros counted as one, must fit 64 bits, too.
StoredTensor entry_of(const json& described) {
  constexpr std::size_t kMostDimensions = 64;
  StoredTensor entry{.name = described.at("name").get<std::string>(),
                     .type = type_of(described.at("type").get<std::string>())};
  const auto what = fmt::format("the shape of '{}'", one_line(entry.name));
  const auto& shape = described.at("shape");
  require(shape.is_array() && shape.size() <= kMostDimensions,
          "{}: found {}, expected a list of at most {} sizes", what, one_line(shape.dump()),
          kMostDimensions);
  entry.bytes = static_cast<std::int64_t>(c10::elementSize(entry.type));
  bool empty = false, fits = true;
  for (const auto& size : shape) {
    const auto n = entry.shape.emplace_back(whole_number(size, what, 0));
    empty = empty || n == 0;
    fits = fits && !__builtin_mul_overflow(entry.bytes, std::max<std::int64_t>(n, 1), &entry.bytes);
  }
  require(fits, "{}: found {}, expected fewer than 2^63 bytes", what, one_line(shape.dump()));
  if (empty) entry.bytes = 0;
  return entry;
}

Header parse_header(const std::string& text) {
  Header header;
  std::unordered_set<std::string> names;
  try {
    const auto described = shallow_json(text, 4);
    const auto &counters = described.at("counters"), &tensors = described.at("tensors");
    require(counters.is_object() && tensors.is_array(), "its header is damaged");
    if (described.contains("algo")) header.algo = described.at("algo").get<std::string>();
    for (const auto& [name, value] : counters.items())
      header.counters.add(name, whole_number(value, fmt::format("counter '{}'", one_line(name)),
                                             std::numeric_limits<std::int64_t>::min()));
    for (const auto& tensor : tensors) {
      const auto& entry = header.tensors.emplace_back(entry_of(tensor));
      require(names.insert(entry.name).second, "'{}' occurs twice", one_line(entry.name));
    }
  } catch (const json::exception&) {
    throw Error("its header is damaged");
  }
  return header;
}

// Throws Error unless the sizes of the tensors add up to the size of the file.
Header read_header(Input& input) {
  constexpr const char* kOther = "it is not a checkpoint, or is truncated";
  std::string magic(kCheckpointMagic.size(), ' ');
  require(input.rest >= magic.size(), "{}", kOther);
  input.read(magic.data(), magic.size(), "it");
  require(magic == kCheckpointMagic, "{}", kOther);
  std::uint64_t length = 0;
  input.read(&length, sizeof length, "its header");
  require(length <= input.rest, "its header is truncated");
  require(length <= kLargestHeader, "its header has {} bytes, expected at most {}", length,
          kLargestHeader);
  std::string text(length, ' ');
  input.read(text.data(), length, "its header");
  auto header = parse_header(text);
  std::uint64_t bytes = kChecksum;
  for (const auto& entry : header.tensors)
    require(!__builtin_add_overflow(bytes, static_cast<std::uint64_t>(entry.bytes), &bytes) &&
                bytes <= input.rest,
            "it is truncated: '{}' has {} bytes and {} are left", one_line(entry.name), entry.bytes,
            input.rest);
  require(bytes == input.rest, "it is damaged: {} bytes follow its tensors", input.rest - bytes);
  return header;
}

// Throws Error unless the stream ends with the checksum of everything before it.
void require_checksum(Input input) {
  std::vector<char> bytes(1 << 20);
  std::uint32_t crc = 0;
  input.rest -= kChecksum;
  while (input.rest > 0) {
    const auto n = std::min<std::uint64_t>(input.rest, bytes.size());
    input.read(bytes.data(), n, "it");
    crc = checksum(crc, {bytes.data(), n});
  }
  std::uint32_t written = 0;
  input.rest = sizeof written;
  input.read(&written, sizeof written, "it");
  require(written == crc, "its checksum is wrong: it is damaged");
}

}  // namespace

std::uint32_t checksum(std::uint32_t before, std::string_view bytes) {
  return static_cast<std::uint32_t>(
      crc32_z(before, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
}

Named<std::int64_t> read_counters(std::istream& in, std::uint64_t size) {
  Input input{in, size};
  return read_header(input).counters;
}

Checkpoint read_checkpoint(std::istream& in, std::uint64_t size) {
  Input input{in, size};
  const auto header = read_header(input);
  const auto elements = size - input.rest;
  in.seekg(0);
  require_checksum({in, size});
  in.seekg(static_cast<std::streamoff>(elements));
  Checkpoint checkpoint{.counters = header.counters, .tensors = {}, .algo = header.algo};
  for (const auto& entry : header.tensors) {
    auto tensor = at::empty(entry.shape, entry.type);
    if (entry.bytes > 0)
      input.read(tensor.data_ptr(), static_cast<std::uint64_t>(entry.bytes),
                 fmt::format("'{}'", entry.name));
    checkpoint.tensors.add(entry.name, std::move(tensor));
  }
  return checkpoint;
}

}  // namespace shoal
