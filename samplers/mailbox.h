#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace shoal {

// Passes messages of any size from forked workers to the agent process. Each slot is an anonymous
// file, which forked processes inherit and which vanishes with them. For rare messages without a
// fixed size; all other data lie in the arena. Access is synchronized elsewhere (StepBarrier).
class Mailbox {
 public:
  // Throws Error if the files cannot be created.
  explicit Mailbox(int slots);
  ~Mailbox();
  Mailbox(const Mailbox&) = delete;
  Mailbox& operator=(const Mailbox&) = delete;

  // Replaces the contents of a slot. Throws Error if there is not enough memory.
  void put(int slot, std::span<const std::byte> bytes) const;
  std::vector<std::byte> read(int slot) const;
  // Reads a slot and empties it.
  std::vector<std::byte> take(int slot) const;

 private:
  std::vector<int> files_;
};

}  // namespace shoal
