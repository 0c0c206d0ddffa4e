#include "shoal/core/spec.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <numeric>

namespace shoal {

std::size_t size_of(DType dtype) {
  switch (dtype) {
    case DType::kUInt8:
    case DType::kBool:
      return 1;
    case DType::kInt32:
    case DType::kFloat32:
      return 4;
    case DType::kInt64:
    case DType::kFloat64:
      return 8;
  }
  __builtin_unreachable();
}

const char* name_of(DType dtype) {
  switch (dtype) {
    case DType::kUInt8:
      return "uint8";
    case DType::kBool:
      return "bool";
    case DType::kInt32:
      return "int32";
    case DType::kInt64:
      return "int64";
    case DType::kFloat32:
      return "float32";
    case DType::kFloat64:
      return "float64";
  }
  __builtin_unreachable();
}

std::int64_t ArraySpec::count() const {
  return std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
}

std::size_t ArraySpec::bytes() const { return static_cast<std::size_t>(count()) * size_of(dtype); }

double number_at(const std::byte* element, DType dtype) {
  auto read = [element]<class T>(T value) {
    std::memcpy(&value, element, sizeof value);
    return static_cast<double>(value);
  };
  switch (dtype) {
    case DType::kUInt8:
    case DType::kBool:
      return read(std::uint8_t{});
    case DType::kInt32:
      return read(std::int32_t{});
    case DType::kInt64:
      return read(std::int64_t{});
    case DType::kFloat32:
      return read(float{});
    case DType::kFloat64:
      return read(double{});
  }
  __builtin_unreachable();
}

bool ActionSpec::bounded() const { return std::isfinite(low) && std::isfinite(high); }

ArraySpec ActionSpec::array() const {
  switch (kind) {
    case Kind::kDiscrete:
      return {.dtype = DType::kInt64, .low = 0, .high = static_cast<double>(choices.at(0) - 1)};
    case Kind::kMultiDiscrete: {
      // One bound for all parts, the largest; `choices` has the bounds of the parts.
      std::int64_t most = 1;
      for (const auto n : choices) most = std::max(most, n);
      return {.dtype = DType::kInt64,
              .shape = {static_cast<std::int64_t>(choices.size())},
              .low = 0,
              .high = static_cast<double>(most - 1)};
    }
    case Kind::kBox:
      return {.dtype = DType::kFloat32, .shape = {dims}, .low = low, .high = high};
    case Kind::kMultiBinary:
      return {.dtype = DType::kBool, .shape = {dims}, .low = 0, .high = 1};
  }
  __builtin_unreachable();
}

}  // namespace shoal
