#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace shoal {

// The folder of one run, locked against other runs as long as this lives. Until keep() is called
// the destructor removes what was made, and so does exit_suddenly(), of the last one made.
class RunFolder {
 public:
  enum class Kind : std::uint8_t { kNew, kExisting };
  // kNew: makes the folder and its missing parents; an empty one may exist already. Throws Error if
  // it holds something, is no folder, cannot be written to, or is in use by another run; an
  // existing one also if it is not there.
  explicit RunFolder(std::filesystem::path path, Kind kind = Kind::kNew);
  ~RunFolder();
  RunFolder(const RunFolder&) = delete;
  RunFolder& operator=(const RunFolder&) = delete;

  void keep();
  const std::filesystem::path& path() const { return path_; }

 private:
  void make();
  void lock();
  void undo();
  std::filesystem::path path_;
  std::vector<std::filesystem::path> made_;  // outermost first
  int lock_ = -1;                            // the folder, open
};

// runs/<name>-<seed>-<date and time>, with a number behind it if that exists.
std::filesystem::path default_run_folder(const std::string& name, unsigned long long seed);

}  // namespace shoal
