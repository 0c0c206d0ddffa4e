#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace shoal {

// A new folder for the files of one run. Until keep() is called the destructor removes what was
// made.
class RunFolder {
 public:
  // Makes the folder and its missing parents. An empty one may exist already. Throws Error if it
  // holds something, is no folder, or cannot be written to.
  explicit RunFolder(std::filesystem::path path);
  ~RunFolder();
  RunFolder(const RunFolder&) = delete;
  RunFolder& operator=(const RunFolder&) = delete;

  void keep() { made_.clear(); }
  const std::filesystem::path& path() const { return path_; }

 private:
  void undo();
  std::filesystem::path path_;
  std::vector<std::filesystem::path> made_;  // outermost first
};

// runs/<name>-<seed>-<date and time>, with a number behind it if that exists.
std::filesystem::path default_run_folder(const std::string& name, unsigned long long seed);

}  // namespace shoal
