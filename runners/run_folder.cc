#include "shoal/runners/run_folder.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <ctime>
#include <system_error>

#include "shoal/core/error.h"

namespace fs = std::filesystem;

namespace shoal {

RunFolder::RunFolder(fs::path path) : path_(std::move(path)) {
  std::error_code error;
  fs::path missing = fs::absolute(path_).lexically_normal();
  if (missing.filename().empty()) missing = missing.parent_path();
  const fs::path folder = missing;
  for (; !fs::exists(missing, error) && !error; missing = missing.parent_path())
    made_.push_back(missing);
  std::reverse(made_.begin(), made_.end());
  require(!error && fs::is_directory(missing, error),
          "the run folder {} cannot be made: {} is no folder", path_.string(), missing.string());
  require(::access(missing.c_str(), W_OK | X_OK) == 0,
          "the run folder {} cannot be written: {} is not writable", path_.string(),
          missing.string());
  const bool empty = !made_.empty() || fs::is_empty(folder, error);
  require(!error && empty, "the run folder {} is not empty; give another one with --out",
          path_.string());
  fs::create_directories(folder, error);
  if (error) {
    undo();
    throw Error("the run folder {} cannot be made: {}", path_.string(), error.message());
  }
}

RunFolder::~RunFolder() { undo(); }

void RunFolder::undo() {
  std::error_code ignored;  // a folder that is in use by now stays
  for (auto it = made_.rbegin(); it != made_.rend(); ++it) fs::remove(*it, ignored);
}

fs::path default_run_folder(const std::string& name, unsigned long long seed) {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  localtime_r(&now, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y%m%d-%H%M%S", &parts);
  const std::string base = fmt::format("runs/{}-{}-{}", name, seed, text);
  std::string folder = base;
  for (int n = 2; fs::exists(folder); ++n) folder = fmt::format("{}-{}", base, n);
  return folder;
}

}  // namespace shoal
