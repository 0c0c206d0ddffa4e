#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

namespace shoal {

// Writes a file beside its target, as "<target>.new". finish() replaces the target once everything
// is on disk, so the target holds the old content or the new content, never a part. A target that
// is not a regular file, such as a pipe or a device, is written in place.
class FileReplacement {
 public:
  // Throws Error if the target is a folder, or if its folder is not writable.
  explicit FileReplacement(std::filesystem::path target);
  // Removes the written file unless finish() has succeeded.
  ~FileReplacement();
  FileReplacement(const FileReplacement&) = delete;
  FileReplacement& operator=(const FileReplacement&) = delete;

  // Both throw std::runtime_error, not Error: a full disk is not a mistake of the user.
  void write(std::string_view bytes);
  void finish();

 private:
  std::filesystem::path target_, written_;
  int fd_ = -1;  // -1: finish() has succeeded
  bool in_place_ = false;
};

// Replaces the content of a file atomically. Throws as FileReplacement does.
void write_file(const std::filesystem::path& file, std::string_view content);
// Waits until the file is on disk. Throws Error if it cannot be opened, std::runtime_error if it
// cannot be written.
void sync_file(const std::filesystem::path& file);

inline constexpr std::uint64_t kLargestText = std::uint64_t{1} << 32;
// Throws Error if the file cannot be read or has more than `most` bytes.
std::string read_file(const std::filesystem::path& file, std::uint64_t most = kLargestText);

}  // namespace shoal
