// SPDX-License-Identifier: GPL-2.0-only
#ifndef SHOAL_PLUGINS_ALE_CORE_ASSEMBLER_H_
#define SHOAL_PLUGINS_ALE_CORE_ASSEMBLER_H_

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace x86 {

enum Register : std::uint8_t {
  rax,
  rcx,
  rdx,
  rbx,
  rsp,
  rbp,
  rsi,
  rdi,
  r8,
  r9,
  r10,
  r11,
  r12,
  r13,
  r14,
  r15,
  no_register
};
enum Operation : std::uint8_t { kAdd, kOr, kAdc, kSbb, kAnd, kSub, kXor, kCmp };
enum Shift : std::uint8_t { kRotateRight = 3, kLeft = 4, kRight = 5 };
enum Condition : std::uint8_t {
  kOverflow = 0,
  kBelow = 2,
  kNotBelow = 3,
  kZero = 4,
  kNotZero = 5,
  kAbove = 7
};

struct Memory {
  Register base;
  std::int32_t offset = 0;
  Register index = no_register;
  std::uint8_t scale = 0;  // of the index: a power of two
};

// Writes machine code (Intel's manual, volume 2) from `at` on. Numbers have 32 bits unless a name
// says otherwise. Nothing is written beyond `end`; `overflowed` says that it would have been.
class Assembler {
 public:
  Assembler(std::uint8_t* at, std::uint8_t* end) : at_(at), end_(end) {}

  std::uint8_t* at() const { return at_; }
  bool overflowed() const { return overflowed_; }

  void mov(Register to, Register from) { with_register(0x89, from, to); }
  void mov(Register to, std::uint32_t value) {
    prefix(false, 0, 0, to, false);
    byte(0xb8 + (to & 7));
    number(value);
  }
  void mov64(Register to, std::uint64_t value) {
    prefix(true, 0, 0, to, false);
    byte(0xb8 + (to & 7));
    number(static_cast<std::uint32_t>(value));
    number(static_cast<std::uint32_t>(value >> 32));
  }
  void mov64(Register to, Register from) { with_register(0x89, from, to, true); }
  void load(Register to, Memory from) { with_memory({0x8b}, to, from); }
  void load64(Register to, Memory from) { with_memory({0x8b}, to, from, true); }
  void load8(Register to, Memory from) { with_memory({0x0f, 0xb6}, to, from); }
  void load16(Register to, Memory from) { with_memory({0x0f, 0xb7}, to, from); }
  void store(Memory to, Register from) { with_memory({0x89}, from, to); }
  void store8(Memory to, Register from) { with_memory({0x88}, from, to, false, true); }
  void store16(Memory to, Register from) {
    byte(0x66);
    with_memory({0x89}, from, to);
  }
  void store8(Memory to, std::uint8_t value) {
    with_memory({0xc6}, 0, to);
    byte(value);
  }
  void widen8(Register to, Register from) {
    prefix(false, to, 0, from, true);
    byte(0x0f), byte(0xb6), pair(to, from);
  }
  void widen16(Register to, Register from) {
    prefix(false, to, 0, from, false);
    byte(0x0f), byte(0xb7), pair(to, from);
  }
  void lea(Register to, Memory from) { with_memory({0x8d}, to, from); }
  void alu(Operation how, Register to, Register from) { with_register(8 * how + 1, from, to); }
  void alu(Operation how, Register to, std::uint32_t value) {
    prefix(false, 0, 0, to, false);
    byte(0x81), pair(how, to);
    number(value);
  }
  void alu8(Operation how, Register to, Register from) {
    with_register(8 * how, from, to, false, true);
  }
  void alu8(Operation how, Register to, std::uint8_t value) {
    prefix(false, 0, 0, to, true);
    byte(0x80), pair(how, to), byte(value);
  }
  void alu(Operation how, Memory to, Register from) {
    with_memory({static_cast<std::uint8_t>(8 * how + 1)}, from, to);
  }
  void alu(Operation how, Memory to, std::int8_t value) {
    with_memory({0x83}, how, to);
    byte(static_cast<std::uint8_t>(value));
  }
  void alu32(Operation how, Memory to, std::uint32_t value) {
    with_memory({0x81}, how, to);
    number(value);
  }
  void alu8(Operation how, Memory to, std::uint8_t value) {
    with_memory({0x80}, how, to);
    byte(value);
  }
  void test8(Register a, Register b) { with_register(0x84, b, a, false, true); }
  void test8(Register a, std::uint8_t value) {
    prefix(false, 0, 0, a, true);
    byte(0xf6), pair(0, a), byte(value);
  }
  void test(Register a, std::uint32_t value) {
    prefix(false, 0, 0, a, false);
    byte(0xf7), pair(0, a);
    number(value);
  }
  void shift(Shift how, Register to, std::uint8_t by) {
    prefix(false, 0, 0, to, false);
    byte(0xc1), pair(how, to), byte(by);
  }
  void shift8(Shift how, Register to) {
    prefix(false, 0, 0, to, true);
    byte(0xd0), pair(how, to);
  }
  void set(Condition condition, Memory to) {
    with_memory({0x0f, static_cast<std::uint8_t>(0x90 + condition)}, 0, to);
  }
  void push(Register from) {
    prefix(false, 0, 0, from, false);
    byte(0x50 + (from & 7));
  }
  void pop(Register to) {
    prefix(false, 0, 0, to, false);
    byte(0x58 + (to & 7));
  }
  void call(Register to) {
    prefix(false, 0, 0, to, false);
    byte(0xff), pair(2, to);
  }
  void jump(Register to) {
    prefix(false, 0, 0, to, false);
    byte(0xff), pair(4, to);
  }
  void jump(Memory to) { with_memory({0xff}, 4, to); }
  // To the address that is stored at `slot`, less than 2 GiB from here.
  void jump_through(const void* slot) {
    byte(0xff), byte(0x25);
    number(distance(slot));
  }
  void jump(const std::uint8_t* to) {
    byte(0xe9);
    number(distance(to));
  }
  void ret() { byte(0xc3); }

  // Jumps whose target is known later: bind() sets it to here.
  using Jump = std::uint8_t*;
  Jump jump_if(Condition condition) {
    byte(0x0f), byte(0x80 + condition);
    number(0);
    return at_;
  }
  Jump jump() {
    byte(0xe9);
    number(0);
    return at_;
  }
  void bind(Jump jump) const {
    if (overflowed_) return;
    const auto distance = static_cast<std::int32_t>(at_ - jump);
    std::memcpy(jump - 4, &distance, 4);
  }

 private:
  struct Opcode {
    std::uint8_t first, second = 0;
  };

  void byte(int value) {
    if (at_ == end_) {
      overflowed_ = true;
      return;
    }
    *at_++ = static_cast<std::uint8_t>(value);
  }
  void number(std::uint32_t value) {
    for (int i = 0; i < 4; ++i) byte(static_cast<int>((value >> (8 * i)) & 0xff));
  }
  std::uint32_t distance(const void* to) const {
    return static_cast<std::uint32_t>(static_cast<const std::uint8_t*>(to) - (at_ + 4));
  }
  // of_bytes: without a prefix the numbers 4 to 7 are other registers.
  void prefix(bool wide, int reg, int index, int base, bool of_bytes) {
    const int bits = (wide ? 8 : 0) | ((reg & 8) >> 1) | ((index & 8) >> 2) | ((base & 8) >> 3);
    if (bits != 0 || of_bytes) byte(0x40 | bits);
  }
  void pair(int reg, int rm) { byte(0xc0 | ((reg & 7) << 3) | (rm & 7)); }
  void with_register(int opcode, int reg, int rm, bool wide = false, bool of_bytes = false) {
    prefix(wide, reg, 0, rm, of_bytes);
    byte(opcode), pair(reg, rm);
  }
  void with_memory(Opcode opcode, int reg, Memory m, bool wide = false, bool of_bytes = false) {
    const bool indexed = m.index != no_register;
    prefix(wide, reg, indexed ? m.index : 0, m.base, of_bytes);
    byte(opcode.first);
    if (opcode.first == 0x0f) byte(opcode.second);
    const bool is_short = m.offset >= -128 && m.offset < 128;
    const int mod = is_short ? 0x40 : 0x80, sib = indexed || (m.base & 7) == rsp;
    byte(mod | ((reg & 7) << 3) | (sib ? 4 : m.base & 7));
    if (sib) byte((m.scale << 6) | ((indexed ? m.index & 7 : 4) << 3) | (m.base & 7));
    if (is_short)
      byte(m.offset & 0xff);
    else
      number(static_cast<std::uint32_t>(m.offset));
  }

  std::uint8_t *at_, *end_;
  bool overflowed_ = false;
};

}  // namespace x86

#endif  // SHOAL_PLUGINS_ALE_CORE_ASSEMBLER_H_
