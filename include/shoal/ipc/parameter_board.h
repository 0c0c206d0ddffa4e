#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

namespace shoal {

// The newest parameters of a policy in shared memory, for processes that act with copies of their
// own. One process publishes; any number read, and never see half of an old and half of a new
// version: they copy word by word, and again if the version has moved meanwhile.
class ParameterBoard {
 public:
  static std::size_t bytes(std::size_t payload);  // memory it needs for so many bytes of parameters

  // Constructs the words in `memory` (64-byte aligned, at least bytes(payload)); call once, before
  // the fork.
  ParameterBoard(std::byte* memory, std::size_t payload);

  // The publisher only. parameters: `payload` bytes.
  void publish(std::span<const std::byte> parameters);

  // Copies the newest version to `to` (`payload` bytes), unless `version` is the newest, and sets
  // it. False if nothing was copied; also, rather than wait for ever, if the publisher was always
  // in the middle of its work. `to` may then hold anything.
  bool read(std::span<std::byte> to, std::uint64_t& version) const;
  // Whether there is a newer one than this, or will be in a moment.
  bool is_newer_than(std::uint64_t version) const {
    return head_->sequence.load(std::memory_order_acquire) != version;
  }

 private:
  using Word = std::atomic<std::uint64_t>;
  struct Head {
    alignas(64) Word sequence{0};  // odd while the publisher writes
  };
  bool try_read(std::span<std::byte> to, std::uint64_t sequence) const;

  Head* head_;
  Word* words_;
  std::size_t payload_;
};

}  // namespace shoal
