#pragma once

#include <filesystem>
#include <fstream>

namespace shoal {

// Opens for reading. Throws Error unless it is a regular file that can be opened.
std::ifstream open_file(const std::filesystem::path& file);

}  // namespace shoal
