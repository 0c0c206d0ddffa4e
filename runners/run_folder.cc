#include "shoal/runners/run_folder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <ctime>
#include <system_error>
#include <thread>

#include "shoal/core/error.h"
#include "shoal/core/stop.h"

namespace fs = std::filesystem;

namespace shoal {
namespace {

// Parents before children; exit_suddenly() removes them.
std::atomic<const std::vector<fs::path>*> to_remove{nullptr};
std::atomic<pid_t> remover{0};  // the process that created them; its workers remove nothing

void remove_what_was_made() {
  const auto* const made = to_remove.load();
  if (made == nullptr || remover != ::getpid()) return;
  for (auto it = made->rbegin(); it != made->rend(); ++it) ::rmdir(it->c_str());
}

void require_made(const fs::path& folder, const std::error_code& error) {
  require(!error, "cannot create the run folder {}: {}", folder.string(), error.message());
}

}  // namespace

RunFolder::RunFolder(fs::path path, Kind kind) : path_(std::move(path)) {
  if (kind == Kind::kNew) make();
  try {
    lock();
    std::error_code error;
    const bool empty = kind == Kind::kExisting || fs::is_empty(path_, error);
    require(!error, "the run folder {} cannot be read: {}", path_.string(), error.message());
    require(empty, "another run has just taken the run folder {}; give another one with --out",
            path_.string());
  } catch (...) {
    if (lock_ >= 0) ::close(lock_);
    undo();
    throw;
  }
  remover = ::getpid();
  to_remove = &made_;
  before_sudden_exit(remove_what_was_made);
}

RunFolder::~RunFolder() {
  to_remove = nullptr;
  undo();
  ::close(lock_);
}

// The process and its workers hold the lock, and workers outlive a killed process for a moment.
void RunFolder::lock() {
  constexpr int kTries = 100;
  constexpr std::chrono::milliseconds kPause{10};
  lock_ = ::open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  require(lock_ >= 0, "the run folder {} cannot be read: {}", path_.string(), std::strerror(errno));
  for (int i = 0; ::flock(lock_, LOCK_EX | LOCK_NB) != 0; ++i) {
    require(errno == EWOULDBLOCK || errno == EINTR, "the run folder {} cannot be locked: {}",
            path_.string(), std::strerror(errno));
    require(i < kTries,
            "the run folder {} is in use by another run; wait for it to end, or give another one "
            "with --out",
            path_.string());
    std::this_thread::sleep_for(kPause);
  }
}

void RunFolder::make() {
  std::error_code error;
  fs::path missing = fs::absolute(path_, error).lexically_normal();
  require_made(path_, error);
  if (missing.filename().empty()) missing = missing.parent_path();
  const fs::path folder = missing;
  for (; !fs::exists(missing, error) && !error; missing = missing.parent_path())
    made_.push_back(missing);
  require_made(path_, error);
  std::reverse(made_.begin(), made_.end());
  require(fs::is_directory(missing, error), "cannot create the run folder {}: {} is not a folder",
          path_.string(), missing.string());
  require(::access(missing.c_str(), W_OK | X_OK) == 0,
          "cannot write to the run folder {}: {} is not writable", path_.string(),
          missing.string());
  const bool empty = !made_.empty() || fs::is_empty(folder, error);
  require(!error, "the run folder {} cannot be read: {}", path_.string(), error.message());
  require(empty, "the run folder {} is not empty; give another one with --out", path_.string());
  if (made_.empty()) return;
  if (made_.size() > 1) fs::create_directories(folder.parent_path(), error);
  const bool mine = !error && fs::create_directory(folder, error);
  if (mine) return;
  if (!error) made_.clear();  // created by another process
  undo();
  require_made(path_, error);
  throw Error("another run has just created the run folder {}; start again, or give one with --out",
              path_.string());
}

void RunFolder::keep() {
  to_remove = nullptr;
  made_.clear();
}

void RunFolder::undo() {
  std::error_code ignored;  // a folder that is in use stays
  for (auto it = made_.rbegin(); it != made_.rend(); ++it) fs::remove(*it, ignored);
}

std::string folder_name(std::string text) {
  std::ranges::replace_if(
      text, [](char c) { return c == '/' || c == ':'; }, '-');
  return text;
}

fs::path default_run_folder(const std::string& name, unsigned long long seed) {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  localtime_r(&now, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y%m%d-%H%M%S", &parts);
  const std::string base = fmt::format("runs/{}-{}-{}", name, seed, text);
  std::string folder = base;
  std::error_code ignored;  // a name that cannot be accessed is rejected when the folder is created
  for (int n = 2; fs::exists(folder, ignored); ++n) folder = fmt::format("{}-{}", base, n);
  return folder;
}

}  // namespace shoal
