#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

namespace shoal {

// The newest parameters of a policy in shared memory, for processes that act with their own copies.
// One process publishes, any number read. A reader never sees a mix of two versions: it copies word
// by word, and retries if the version changed meanwhile.
class ParameterBoard {
 public:
  static std::size_t bytes(std::size_t payload);  // memory needed for `payload` bytes of parameters

  // Constructs the words in `memory` (64-byte aligned, at least bytes(payload)); call once, before
  // the fork.
  ParameterBoard(std::byte* memory, std::size_t payload);

  // The publisher only. parameters: `payload` bytes. If they are the newest version already, no new
  // one is made.
  void publish(std::span<const std::byte> parameters);

  // Copies the newest version to `to` (`payload` bytes) and sets `version` (0 before the first
  // read), unless that is the newest already. False if nothing was copied; also, instead of waiting
  // forever, if every try met the publisher writing: `to` is unspecified then.
  bool read(std::span<std::byte> to, std::uint64_t& version) const;
  // Whether a newer version exists or is being published.
  bool is_newer_than(std::uint64_t version) const {
    return head_->sequence.load(std::memory_order_acquire) != version;
  }

 private:
  using Word = std::atomic<std::uint64_t>;
  struct Head {
    alignas(64) Word sequence{0};  // odd while the publisher writes
  };
  bool holds(std::span<const std::byte> parameters) const;
  bool try_read(std::span<std::byte> to, std::uint64_t sequence) const;

  Head* head_;
  Word* words_;
  std::size_t payload_;
};

}  // namespace shoal
