#pragma once

#include <fmt/format.h>

#include <cstdio>
#include <utility>

namespace shoal {

// A line on standard error. Unlike fmt::print() it does not throw if that is closed, or a file on a
// full disk.
template <class... Args>
void print_error(fmt::format_string<Args...> text, Args&&... args) {
  std::fputs((fmt::format(text, std::forward<Args>(args)...) + "\n").c_str(), stderr);
}

}  // namespace shoal
