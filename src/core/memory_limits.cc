#include "src/core/memory_limits.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "shoal/core/arena.h"

namespace shoal {

namespace {

namespace fs = std::filesystem;

constexpr std::size_t kUnlimited = std::numeric_limits<std::size_t>::max();

// File names and keys of one cgroup version.
struct Version {
  std::vector<fs::path> mounts;  // possible mount points
  const char* limit;
  const char* usage;
  const char* cache[2];  // entries of memory.stat: file pages that the kernel reclaims when memory
                         // is short
};

const Version kV1{{"sys/fs/cgroup/memory"},
                  "memory.limit_in_bytes",
                  "memory.usage_in_bytes",
                  {"total_inactive_file", "total_active_file"}};
const Version kV2{{"sys/fs/cgroup", "sys/fs/cgroup/unified"},
                  "memory.max",
                  "memory.current",
                  {"inactive_file", "active_file"}};

// The number at the start of a file; nothing if the file is missing or holds "max".
std::optional<std::size_t> read_number(const fs::path& file) {
  std::ifstream in(file);
  std::size_t number = 0;
  if (in >> number) return number;
  return std::nullopt;
}

// The number after `key` in a file of "key number" lines; 0 if the key is missing.
std::size_t read_entry(const fs::path& file, const std::string& key) {
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with(key) && line.size() > key.size() && line[key.size()] == ' ')
      return std::stoull(line.substr(key.size()));
  }
  return 0;
}

std::size_t left_in(const fs::path& group, const Version& version) {
  const auto limit = read_number(group / version.limit);
  const auto usage = read_number(group / version.usage);
  if (!limit || !usage) return kUnlimited;
  // Usage includes cached file pages; shared memory is on the anonymous lists instead.
  std::size_t cache = 0;
  for (const char* key : version.cache) cache += read_entry(group / "memory.stat", key);
  const auto used = *usage - std::min(*usage, cache);
  return *limit - std::min(*limit, used);
}

// The least memory left in any group from `path` up to the root of the mount. Groups that are not
// visible are skipped, as in a container that shows the host's paths.
std::size_t left_above(const fs::path& mount, const std::string& path, const Version& version) {
  std::size_t least = left_in(mount, version);
  fs::path group = mount;
  for (const auto& part : fs::path(path).lexically_normal().relative_path()) {
    group /= part;
    least = std::min(least, left_in(group, version));
  }
  return least;
}

// Parses a `line` of /proc/self/cgroup: "hierarchy:controllers:path"; version 2 has no controllers.
std::size_t left_by_line(const fs::path& root, const std::string& line) {
  const auto first = line.find(':');
  const auto second = line.find(':', first + 1);
  if (first == std::string::npos || second == std::string::npos) return kUnlimited;
  const auto controllers = fmt::format(",{},", line.substr(first + 1, second - first - 1));
  const bool v2 = controllers == ",,";
  if (!v2 && controllers.find(",memory,") == std::string::npos) return kUnlimited;
  const Version& version = v2 ? kV2 : kV1;
  std::size_t least = kUnlimited;
  for (const auto& mount : version.mounts)
    least = std::min(least, left_above(root / mount, line.substr(second + 1), version));
  return least;
}

// The machine's memory, from a line "MemAvailable:   123 kB".
std::size_t machine_has(const fs::path& root) {
  const auto kib = read_entry(root / "proc/meminfo", "MemAvailable:");
  return kib == 0 ? kUnlimited : kib * 1024;
}

}  // namespace

std::size_t available_memory_under(const fs::path& root) {
  std::size_t least = machine_has(root);
  std::ifstream groups(root / "proc/self/cgroup");
  for (std::string line; std::getline(groups, line);)
    least = std::min(least, left_by_line(root, line));
  return least;
}

std::size_t available_memory() { return available_memory_under("/"); }

}  // namespace shoal
