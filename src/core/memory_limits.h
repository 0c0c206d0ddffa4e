#pragma once

#include <cstddef>
#include <filesystem>

namespace shoal {

// available_memory() with /proc and /sys below `root`, so that tests can simulate a machine.
std::size_t available_memory_under(const std::filesystem::path& root);

}  // namespace shoal
