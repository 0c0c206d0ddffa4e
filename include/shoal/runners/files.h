#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

namespace shoal {

// A file that is written beside its target, as "<target>.new", and replaces it in finish(), once
// all of it is on the disk: the target holds the old content or the new one, never a part of it. A
// target that is no regular file, such as a pipe or a device, is written in place.
class FileReplacement {
 public:
  // Throws Error if the target is a folder, or if its folder cannot be written to.
  explicit FileReplacement(std::filesystem::path target);
  // Removes what was written, unless finish() has succeeded.
  ~FileReplacement();
  FileReplacement(const FileReplacement&) = delete;
  FileReplacement& operator=(const FileReplacement&) = delete;

  // Both throw std::runtime_error: a disk that is full is no mistake of the user's.
  void write(std::string_view bytes);
  void finish();

 private:
  std::filesystem::path target_, written_;
  int fd_ = -1;  // -1: finish() has succeeded
  bool in_place_ = false;
};

// Replaces a file as a whole. Throws as FileReplacement does.
void write_file(const std::filesystem::path& file, std::string_view content);
// Waits until all of it is on the disk. Throws Error if it cannot be opened, std::runtime_error if
// it cannot be written.
void sync_file(const std::filesystem::path& file);

inline constexpr std::uint64_t kLargestText = std::uint64_t{1} << 32;
// Throws Error if it cannot be read or has more than `most` bytes.
std::string read_file(const std::filesystem::path& file, std::uint64_t most = kLargestText);

}  // namespace shoal
