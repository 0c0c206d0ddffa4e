#include "samplers/mailbox.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "shoal/core/error.h"

namespace shoal {

Mailbox::Mailbox(int slots) {
  for (int i = 0; i < slots; ++i) {
    const int file = ::memfd_create("shoal mailbox", MFD_CLOEXEC);
    const int error = errno;
    if (file < 0) {
      for (const int made : files_) ::close(made);
      throw Error("memfd_create failed for the messages of a worker: {}", std::strerror(error));
    }
    files_.push_back(file);
  }
}

Mailbox::~Mailbox() {
  for (const int file : files_) ::close(file);
}

void Mailbox::put(int slot, std::span<const std::byte> bytes) const {
  const int file = files_[static_cast<std::size_t>(slot)];
  require(::ftruncate(file, 0) == 0, "cannot truncate the message file of a worker: {}",
          std::strerror(errno));
  for (std::size_t done = 0; done < bytes.size();) {
    const auto n =
        ::pwrite(file, bytes.data() + done, bytes.size() - done, static_cast<off_t>(done));
    require(n > 0 || errno == EINTR, "cannot write a worker's message of {} bytes: {}",
            bytes.size(), std::strerror(errno));
    if (n > 0) done += static_cast<std::size_t>(n);
  }
}

std::vector<std::byte> Mailbox::read(int slot) const {
  const int file = files_[static_cast<std::size_t>(slot)];
  struct stat status {};
  require(::fstat(file, &status) == 0, "cannot read the message of a worker: {}",
          std::strerror(errno));
  std::vector<std::byte> bytes(static_cast<std::size_t>(status.st_size));
  for (std::size_t done = 0; done < bytes.size();) {
    const auto n =
        ::pread(file, bytes.data() + done, bytes.size() - done, static_cast<off_t>(done));
    require(n > 0 || errno == EINTR, "cannot read the message of a worker: {}",
            std::strerror(errno));
    if (n > 0) done += static_cast<std::size_t>(n);
  }
  return bytes;
}

std::vector<std::byte> Mailbox::take(int slot) const {
  auto bytes = read(slot);
  ::ftruncate(files_[static_cast<std::size_t>(slot)], 0);  // frees the memory
  return bytes;
}

}  // namespace shoal
