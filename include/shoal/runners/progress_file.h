#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

namespace shoal {

// A table in CSV that grows by a row at a time. Its first column, "steps", tells where in a run a
// row belongs. Other columns may come and go: one that was not there before is added behind the
// others and is empty in the rows before it; one that is missing is empty.
class ProgressFile {
 public:
  using Row = std::vector<std::pair<std::string, std::string>>;  // column, text

  // Begins a new table.
  void open(const std::filesystem::path& file);
  // Goes on with the one in `file` after the rows with at most so many steps; whatever follows
  // them, half a row perhaps, is dropped. Returns the last one, nothing if there is none. Throws
  // Error if the file cannot be read or written.
  Row resume(const std::filesystem::path& file, std::int64_t steps);
  // Whoever watches the file sees whole rows. Throws Error if it cannot be written.
  void write(const Row& row);

 private:
  void add_columns(const Row& row);
  void append(const std::string& line);

  std::filesystem::path file_;
  std::ofstream out_;
  std::vector<std::string> columns_;
};

}  // namespace shoal
