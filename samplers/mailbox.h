#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace shoal {

// Bytes of any number on their way from forked workers to the agent process: an anonymous file for
// each slot, which the fork inherits and nothing outlives. For what is rare and of no fixed size;
// everything else has its place in the arena. A protocol (StepBarrier) says who may call, when.
class Mailbox {
 public:
  // Throws Error if the files cannot be made.
  explicit Mailbox(int slots);
  ~Mailbox();
  Mailbox(const Mailbox&) = delete;
  Mailbox& operator=(const Mailbox&) = delete;

  // Replaces what is in a slot. Throws Error if there is no memory left for it.
  void put(int slot, std::span<const std::byte> bytes) const;
  std::vector<std::byte> read(int slot) const;
  // Empties a slot.
  std::vector<std::byte> take(int slot) const;

 private:
  std::vector<int> files_;
};

}  // namespace shoal
