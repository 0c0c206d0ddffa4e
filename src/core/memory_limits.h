#pragma once

#include <cstddef>
#include <filesystem>

namespace shoal {

// available_memory() with /proc and /sys looked up below `root`, so that a test can show it any
// machine.
std::size_t available_memory_under(const std::filesystem::path& root);

}  // namespace shoal
