#pragma once

#include <filesystem>
#include <fstream>
#include <system_error>

#include "shoal/core/error.h"

namespace shoal {

// Opens for reading. Throws Error unless it is a regular file that can be opened.
std::ifstream open_file(const std::filesystem::path& file);

// read(stream, number of bytes) of the opened file. Its errors name the file.
template <class Read>
auto read_opened(const std::filesystem::path& file, const Read& read) {
  auto in = open_file(file);
  std::error_code error;
  const auto size = std::filesystem::file_size(file, error);
  require(!error, "cannot read {}: {}", file.string(), error.message());
  try {
    return read(in, size);
  } catch (const Error& e) {
    throw Error("{} cannot be used: {}", file.string(), e.what());
  }
}

}  // namespace shoal
