#pragma once

#include <fmt/format.h>

#include <cstdio>
#include <string>
#include <utility>

namespace shoal {

// print_output() writes to standard output, which is buffered, print_error() to standard error.
// Unlike fmt::print, they never throw: that a disk is full or a reader gone must not end a
// training. The stream remembers the failure (std::ferror).
template <typename... Args>
void print_output(fmt::format_string<Args...> format, Args&&... args) {
  const std::string text = fmt::format(format, std::forward<Args>(args)...);
  std::fwrite(text.data(), 1, text.size(), stdout);
}

template <typename... Args>
void print_error(fmt::format_string<Args...> format, Args&&... args) {
  const std::string text = fmt::format(format, std::forward<Args>(args)...);
  std::fwrite(text.data(), 1, text.size(), stderr);
}

}  // namespace shoal
