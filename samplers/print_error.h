#pragma once

#include <fmt/format.h>

#include <cstdio>
#include <utility>

namespace shoal {

// Prints a line to stderr. Unlike fmt::print() it does not throw if stderr is closed, or is a file
// on a full disk.
template <class... Args>
void print_error(fmt::format_string<Args...> text, Args&&... args) {
  std::fputs((fmt::format(text, std::forward<Args>(args)...) + "\n").c_str(), stderr);
}

}  // namespace shoal
