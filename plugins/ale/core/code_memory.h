// SPDX-License-Identifier: GPL-2.0-only
#ifndef SHOAL_PLUGINS_ALE_CORE_CODE_MEMORY_H_
#define SHOAL_PLUGINS_ALE_CORE_CODE_MEMORY_H_

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "assembler.h"
#include "machine.h"

// The registers of this processor that hold those of the console's, and the Machine.
inline constexpr x86::Register kA = x86::r12, kX = x86::r13, kY = x86::r14, kResult = x86::rbp,
                               kRam = x86::r15, kMachine = x86::rbx;

#define SHOAL_FIELD(member) \
  (x86::Memory{kMachine, static_cast<std::int32_t>(offsetof(Machine, member))})

// One for all programs, made when this library is loaded. Forked processes have copies.
class CodeMemory {
 public:
  static CodeMemory& get() { return memory_; }

  static constexpr std::size_t kAlignment = 16;

  // False where a process may not write code that it executes.
  bool is_usable() const { return begin_ != nullptr; }
  std::size_t left() const { return static_cast<std::size_t>(end_ - at_); }
  std::uint8_t* at() const { return at_; }
  std::uint8_t* end() const { return end_; }
  void* take(std::size_t bytes) {
    auto* const taken = at_;
    at_ += (bytes + kAlignment - 1) / kAlignment * kAlignment;
    return taken;
  }

  // Loads the registers and jumps to the code, which ends with a jump to `leave`, or to `miss`,
  // with the address in eax, if that is not translated yet, or to `skip` if it will not be.
  using Enter = void (*)(Machine&, const void* code);
  Enter enter = nullptr;
  const std::uint8_t *leave = nullptr, *miss = nullptr, *skip = nullptr;

  // The right to write code, which a process that is forked meanwhile never gets: it interprets
  // what is not translated.
  class Turn {
   public:
    Turn() : is_taken_(!memory_.busy_.test_and_set(std::memory_order_acquire)) {}
    ~Turn() {
      if (is_taken_) memory_.busy_.clear(std::memory_order_release);
    }
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;
    explicit operator bool() const { return is_taken_; }

   private:
    bool is_taken_;
  };

 private:
  static constexpr std::size_t kBytes = 16 << 20;

  CodeMemory();

  static CodeMemory memory_;
  std::atomic_flag busy_ = ATOMIC_FLAG_INIT;
  std::uint8_t *begin_ = nullptr, *at_ = nullptr, *end_ = nullptr;
};

#endif  // SHOAL_PLUGINS_ALE_CORE_CODE_MEMORY_H_
