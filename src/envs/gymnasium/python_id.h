#pragma once

#include <string_view>

namespace shoal {

// Prefixes of the ids of environments in Python.
inline constexpr std::string_view kGymnasium = "gymnasium:", kPettingZoo = "pettingzoo:";

inline bool is_in_python(std::string_view id) {
  return id.starts_with(kGymnasium) || id.starts_with(kPettingZoo);
}

}  // namespace shoal
