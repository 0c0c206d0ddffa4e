#include "shoal/runners/files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <stdexcept>
#include <system_error>
#include <utility>

#include "runners/open_file.h"
#include "shoal/core/error.h"
#include "shoal/core/text.h"

namespace fs = std::filesystem;

namespace shoal {
namespace {

[[noreturn]] void fail_to_write(const fs::path& file) {
  throw std::runtime_error(fmt::format("cannot write {}: {}", file.string(), std::strerror(errno)));
}

// Special files cannot be synced, and do not need it.
bool sync(int fd) { return ::fsync(fd) == 0 || errno == EINVAL || errno == EROFS; }

// Without this the new name may be lost in a power failure.
void sync_folder_of(const fs::path& file) {
  const auto folder = file.parent_path();
  const int fd = ::open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  const bool done = fd >= 0 && sync(fd);
  const int error = errno;
  if (fd >= 0) ::close(fd);
  errno = error;
  if (!done) fail_to_write(file);
}

}  // namespace

FileReplacement::FileReplacement(fs::path target) : target_(std::move(target)) {
  std::error_code error;
  const auto status = fs::status(target_, error);
  require(!fs::is_directory(status), "cannot write {}: it is a folder", target_.string());
  in_place_ = fs::exists(status) && !fs::is_regular_file(status);
  if (fs::is_regular_file(status) && fs::is_symlink(target_, error)) {
    const auto linked = fs::canonical(target_, error);
    if (!error) target_ = linked;
  }
  written_ = in_place_ ? target_ : fs::path(target_.string() + ".new");
  const int flags = in_place_ ? O_WRONLY : O_WRONLY | O_CREAT | O_TRUNC;
  fd_ = ::open(written_.c_str(), flags | O_CLOEXEC, 0644);
  require(fd_ >= 0, "cannot write {}: {}", target_.string(), std::strerror(errno));
}

FileReplacement::~FileReplacement() {
  if (fd_ < 0) return;
  ::close(fd_);
  if (!in_place_) ::unlink(written_.c_str());
}

void FileReplacement::write(std::string_view bytes) {
  while (!bytes.empty()) {
    const auto n = ::write(fd_, bytes.data(), bytes.size());
    if (n < 0 && errno != EINTR) fail_to_write(target_);
    if (n > 0) bytes.remove_prefix(static_cast<std::size_t>(n));
  }
}

void FileReplacement::finish() {
  if (!sync(fd_)) fail_to_write(target_);
  if (!in_place_) {
    if (std::rename(written_.c_str(), target_.c_str()) != 0) fail_to_write(target_);
    sync_folder_of(target_);
  }
  ::close(std::exchange(fd_, -1));
}

void write_file(const fs::path& file, std::string_view content) {
  FileReplacement replacement(file);
  replacement.write(content);
  replacement.finish();
}

void sync_file(const fs::path& file) {
  const int fd = ::open(file.c_str(), O_RDONLY | O_CLOEXEC);
  require(fd >= 0, "cannot open {}: {}", file.string(), std::strerror(errno));
  const bool done = sync(fd);
  const int error = errno;
  ::close(fd);
  errno = error;
  if (!done) fail_to_write(file);
}

// The name may come from another file.
std::ifstream open_file(const fs::path& file) {
  constexpr std::size_t kLongest = 500;
  const auto name = one_line(file.string(), kLongest);
  std::error_code error;
  const auto type = fs::status(file, error).type();
  require(!error || type == fs::file_type::not_found, "cannot read {}: {}", name, error.message());
  require(type == fs::file_type::regular, "there is no file {}", name);
  std::ifstream in(file, std::ios::binary);
  require(in.good(), "cannot read {}: {}", name, std::strerror(errno));
  return in;
}

std::string read_file(const fs::path& file, std::uint64_t most) {
  auto in = open_file(file);
  std::error_code error;
  const auto size = fs::file_size(file, error);
  require(!error, "cannot read {}: {}", file.string(), error.message());
  require(size <= most, "cannot read {}: it has {} bytes, expected at most {}", file.string(), size,
          most);
  std::string content(size, '\0');
  in.read(content.data(), static_cast<std::streamsize>(size));
  require(!in.bad(), "cannot read {}: {}", file.string(), std::strerror(errno));
  content.resize(static_cast<std::size_t>(in.gcount()));  // the file may have shrunk meanwhile
  return content;
}

}  // namespace shoal
