#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace shoal {

// The folder of a run, locked against other runs during the lifetime of this object. Until keep()
// is called, the destructor removes created folders, and exit_suddenly() removes those of the most
// recently constructed RunFolder.
class RunFolder {
 public:
  enum class Kind : std::uint8_t { kNew, kExisting };
  // kNew creates the folder and its missing parents; an empty folder may exist. kExisting requires
  // the folder to exist. Throws Error if a new folder is not empty or not writable, and if the path
  // is not a folder or is in use by another run.
  explicit RunFolder(std::filesystem::path path, Kind kind = Kind::kNew);
  ~RunFolder();
  RunFolder(const RunFolder&) = delete;
  RunFolder& operator=(const RunFolder&) = delete;

  void keep();

 private:
  void make();
  void lock();
  void undo();
  std::filesystem::path path_;
  std::vector<std::filesystem::path> made_;  // parents before children
  int lock_ = -1;                            // descriptor of the folder
};

// A name for a folder: the text with '-' for '/' and ':', e.g. of an environment's id.
std::string folder_name(std::string text);
// runs/<name>-<seed>-<date and time>, with a number appended if that exists.
std::filesystem::path default_run_folder(const std::string& name, unsigned long long seed);

}  // namespace shoal
