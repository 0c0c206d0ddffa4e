#include "shoal/ipc/parameter_board.h"

#include <algorithm>
#include <cstring>
#include <new>

#include "shoal/core/error.h"
#include "src/core/cpu_features.h"

namespace shoal {

// A sequence lock (Boehm, "Can seqlocks get along with programming language memory models?", MSPC
// 2012) without fences, because ThreadSanitizer does not support them. Words are stored with
// release and loaded with acquire, so a reader that sees a word of a newer version also sees that
// the sequence has changed.

namespace {

constexpr int kPatience = 10'000;  // tries before a reader gives up

std::size_t words_of(std::size_t payload) { return (payload + 7) / 8; }

std::uint64_t word_at(std::span<const std::byte> bytes, std::size_t at) {
  std::uint64_t word = 0;
  std::memcpy(&word, bytes.data() + at, std::min<std::size_t>(8, bytes.size() - at));
  return word;
}

}  // namespace

std::size_t ParameterBoard::bytes(std::size_t payload) {
  return sizeof(Head) + words_of(payload) * sizeof(Word);
}

ParameterBoard::ParameterBoard(std::byte* memory, std::size_t payload)
    : head_(new (memory) Head),
      words_(reinterpret_cast<Word*>(memory + sizeof(Head))),
      payload_(payload) {
  static_assert(Word::is_always_lock_free, "words are shared between processes");
  for (std::size_t i = 0; i < words_of(payload); ++i) new (words_ + i) Word(0);
}

void ParameterBoard::publish(std::span<const std::byte> parameters) {
  require(parameters.size() == payload_, "publish() got {} bytes of parameters; expected {}",
          parameters.size(), payload_);
  if (holds(parameters)) return;
  const auto sequence = head_->sequence.load(std::memory_order_relaxed);
  head_->sequence.store(sequence + 1, std::memory_order_relaxed);
  for (std::size_t i = 0, from = 0; from < payload_; ++i, from += 8)
    words_[i].store(word_at(parameters, from), std::memory_order_release);
  head_->sequence.store(sequence + 2, std::memory_order_release);
}

// After an update the first words already differ, so the comparison ends early.
bool ParameterBoard::holds(std::span<const std::byte> parameters) const {
  if (head_->sequence.load(std::memory_order_relaxed) == 0) return false;
  for (std::size_t i = 0, at = 0; at < payload_; ++i, at += 8)
    if (words_[i].load(std::memory_order_relaxed) != word_at(parameters, at)) return false;
  return true;
}

bool ParameterBoard::read(std::span<std::byte> to, std::uint64_t& version) const {
  require(to.size() == payload_, "read() got a buffer of {} bytes; expected {}", to.size(),
          payload_);
  for (int i = 0; i < kPatience; ++i) {
    const auto sequence = head_->sequence.load(std::memory_order_acquire);
    if (sequence == version) return false;
    if (sequence % 2 == 0 && try_read(to, sequence)) {
      version = sequence;
      return true;
    }
    pause_core();
  }
  return false;
}

bool ParameterBoard::try_read(std::span<std::byte> to, std::uint64_t sequence) const {
  for (std::size_t i = 0, at = 0; at < payload_; ++i, at += 8) {
    const auto word = words_[i].load(std::memory_order_acquire);
    std::memcpy(to.data() + at, &word, std::min<std::size_t>(8, payload_ - at));
  }
  return head_->sequence.load(std::memory_order_relaxed) == sequence;
}

}  // namespace shoal
