// SPDX-License-Identifier: GPL-2.0-only
// The console's 6507 for ALE: the member functions of M6502Low, in place of ALE's M6502Low.cxx.
// Every register, cycle and access of a chip is as there; only the way is shorter: registers are
// local variables, memory is read without a call, and the loops in which games wait for the timer
// are counted instead of executed.
#include <ale/emucore/Deserializer.hxx>
#include <ale/emucore/Device.hxx>
#include <ale/emucore/M6502Low.hxx>
#include <ale/emucore/M6532.hxx>
#include <ale/emucore/Serializer.hxx>
#include <ale/emucore/System.hxx>
#include <ale/emucore/TIA.hxx>
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <iostream>
#include <string>
#include <string_view>
#include <utility>

#include "reveal.h"

#if defined(__x86_64__) && !defined(SHOAL_PORTABLE_KERNELS)
#define SHOAL_X86 1
#include "program.h"
#else
#define SHOAL_X86 0
#endif

namespace {

using ale::stella::Device;
using ale::stella::M6532;
using ale::stella::System;
using ale::stella::TIA;

SHOAL_REVEAL(System, myCycles);
SHOAL_REVEAL(System, myDataBusState);
SHOAL_REVEAL(M6532, myTimer);
SHOAL_REVEAL(M6532, myIntervalShift);
SHOAL_REVEAL(M6532, myCyclesWhenTimerSet);

constexpr std::uint16_t kStack = 0x0100;

bool is_negative(std::uint8_t value) { return (value & 0x80) != 0; }
bool crosses_page(std::uint16_t from, std::uint32_t to) { return ((from ^ to) & 0xff00) != 0; }

// The bytes of an instruction. JSR fetches its last one itself.
constexpr std::uint8_t length_of(unsigned opcode) {
  const unsigned column = opcode & 0x1f;
  if (opcode == 0x20) return 2;
  if (opcode == 0x40 || opcode == 0x60) return 1;
  if (column == 0x08 || column == 0x0a || column == 0x12 || column == 0x18 || column == 0x1a)
    return 1;
  if (column == 0x02) return opcode >= 0x80 ? 2 : 1;
  return (opcode & 0x0f) >= 0x0c || column == 0x19 || column == 0x1b ? 3 : 2;
}
constexpr auto kLengths = [] {
  std::array<std::uint8_t, 256> lengths{};
  for (unsigned opcode = 0; opcode < 256; ++opcode) lengths[opcode] = length_of(opcode);
  return lengths;
}();

#define SHOAL_INLINE __attribute__((always_inline)) inline

// The registers while instructions are executed: a local variable, so that the compiler keeps them
// in the machine's.
struct Registers {
  const System::PageAccess* const pages;
  std::uint8_t* const ram;
  TIA* const tia;
  M6532* const riot;
  std::uint32_t& system_cycles;
  std::uint8_t& system_bus;
  bool& system_read;
  const std::uint8_t& stopped;
  const std::uint8_t (&decimal_of)[2][256];
  // The base cycles of each instruction. Branches and reads across a page take more.
  const std::uint32_t (&cycles_of)[256];

  // The program counter is an address of this machine: `at` - `origin`, where the memory from
  // `begin` to `end` + 3 is what the processor sees there. Elsewhere `end` is 0.
  std::uintptr_t at = 0, origin = 0, begin = 0, end = 0;
  std::uint32_t instructions_left;
  std::uint32_t cycles;
  // Zero if the lower byte is; negative if bit 7 or bit 15 is set.
  std::uint32_t result = 0;
  std::uint16_t operand = 0;
  std::uint8_t a, x, y, sp, opcode, bus;
  bool overflow, decimal, no_interrupts, carry, with_break;

  // ---- Memory ----

  SHOAL_INLINE const System::PageAccess& page_of(std::uint16_t address) const {
    return pages[(address & 0x1fff) >> 6];
  }
  // A cartridge may show other memory after it was accessed; any chip may stop the processor.
  SHOAL_INLINE void return_from(const Device* chip) {
    cycles = system_cycles;
    if ((chip != tia && chip != riot) || stopped != 0) leave_window(pc());
  }
  SHOAL_INLINE std::uint8_t read_chip(const System::PageAccess& page, std::uint16_t address) {
    system_cycles = cycles;
    system_bus = bus;
    // Calls that the compiler can make directly.
    if (page.device == tia)
      bus = tia->peek(address);
    else if (page.device == riot)
      bus = riot->M6532::peek(address);
    else
      bus = page.device->peek(address);
    return_from(page.device);
    return bus;
  }
  SHOAL_INLINE std::uint8_t read(std::uint16_t address) {
    const auto& page = page_of(address);
    if (page.directPeekBase == nullptr) [[unlikely]]
      return read_chip(page, address);
    return bus = page.directPeekBase[address & 0x3f];
  }
  // Reads from page zero or one: the upper half of either is the RAM.
  SHOAL_INLINE std::uint8_t read_low(std::uint16_t address) {
    if ((address & 0x80) == 0) return read_chip(page_of(address), address);
    return bus = ram[address & 0x7f];
  }
  // `was_read`: the access before was no write.
  SHOAL_INLINE void write_chip(const System::PageAccess& page, std::uint16_t address,
                               std::uint8_t value, bool was_read) {
    system_cycles = cycles;
    system_read = was_read;
    if (page.device == tia) [[likely]]
      tia->poke(address, value);
    else
      page.device->poke(address, value);
    return_from(page.device);
  }
  SHOAL_INLINE void write(std::uint16_t address, std::uint8_t value) {
    const auto& page = page_of(address);
    bus = value;
    if (page.directPokeBase == nullptr) return write_chip(page, address, value, true);
    page.directPokeBase[address & 0x3f] = value;
  }
  SHOAL_INLINE void write_low(std::uint16_t address, std::uint8_t value, bool was_read = true) {
    bus = value;
    if ((address & 0x80) == 0) return write_chip(page_of(address), address, value, was_read);
    ram[address & 0x7f] = value;
  }
  SHOAL_INLINE std::uint16_t word(std::uint16_t low, std::uint16_t high) {
    const auto first = read(low);
    return static_cast<std::uint16_t>(first | (read(high) << 8));
  }

  // ---- Program ----

  SHOAL_INLINE std::uint16_t pc() const { return static_cast<std::uint16_t>(at - origin); }
  SHOAL_INLINE void leave_window(std::uint16_t pc) {
    origin = 0x10000;
    at = origin + pc;
    end = 0;
  }
  SHOAL_INLINE std::size_t window_size() const { return end == 0 ? 0 : end + 4 - begin; }
  SHOAL_INLINE void jump(std::uint16_t pc) {
    const auto target = origin + pc;
    if (target >= begin && target <= end) [[likely]]
      at = target;
    else
      leave_window(pc);
  }
  SHOAL_INLINE void skip(unsigned bytes) { at += bytes; }
  // Fetches the opcode, and into `operand` the bytes that belong to it. Those are skipped where
  // they are used: so the next address waits for no table, and the machine predicts it. Returns
  // false if a chip has stopped the processor.
  SHOAL_INLINE bool fetch() {
    if (at > end) [[unlikely]] {
      if (stopped != 0) return false;
      fetch_slowly();
    } else {
      std::uint32_t bytes = 0;
      std::memcpy(&bytes, reinterpret_cast<const void*>(at), sizeof bytes);
      opcode = bus = static_cast<std::uint8_t>(bytes);
      operand = static_cast<std::uint16_t>(bytes >> 8);
      cycles += cycles_of[opcode];
    }
    skip(1);
    return true;
  }
  SHOAL_INLINE void fetch_slowly() {
    const auto& page = page_of(pc());
    if (page.directPeekBase != nullptr) enter_window();
    const auto from = pc();
    opcode = read(from);
    cycles += cycles_of[opcode];
    operand = 0;
    if (kLengths[opcode] > 1) operand = read(static_cast<std::uint16_t>(from + 1));
    if (kLengths[opcode] > 2)
      operand =
          static_cast<std::uint16_t>(operand | (read(static_cast<std::uint16_t>(from + 2)) << 8));
  }
  SHOAL_INLINE void enter_window() {
    const auto from = pc();
    const unsigned page = (from & 0x1fffU) >> 6;
    const auto* const memory = pages[page].directPeekBase;
    unsigned first = page, last = page;
    while (first > 0 && pages[first - 1].directPeekBase == memory - 64 * (page - first + 1))
      --first;
    while (last < 127 && pages[last + 1].directPeekBase == memory + 64 * (last + 1 - page)) ++last;
    origin = reinterpret_cast<std::uintptr_t>(memory) - (from & ~0x3fU);
    begin = reinterpret_cast<std::uintptr_t>(memory) - 64 * (page - first);
    end = reinterpret_cast<std::uintptr_t>(memory) + 64 * (last + 1 - page) - 4;
    at = origin + from;
  }

  // ---- Addresses ----

  SHOAL_INLINE std::uint8_t immediate() {
    skip(1);
    return bus = static_cast<std::uint8_t>(operand);
  }
  SHOAL_INLINE std::uint16_t zero_page() { return immediate(); }
  SHOAL_INLINE std::uint16_t zero_page_x() { return static_cast<std::uint8_t>(immediate() + x); }
  SHOAL_INLINE std::uint16_t zero_page_y() { return static_cast<std::uint8_t>(immediate() + y); }
  SHOAL_INLINE std::uint16_t absolute() {
    skip(2);
    bus = static_cast<std::uint8_t>(operand >> 8);
    return operand;
  }
  // To read across a page takes a cycle more.
  SHOAL_INLINE std::uint16_t indexed(std::uint16_t base, std::uint8_t index) {
    if (crosses_page(base, base + index)) ++cycles;
    return static_cast<std::uint16_t>(base + index);
  }
  SHOAL_INLINE std::uint16_t absolute_x() { return indexed(absolute(), x); }
  SHOAL_INLINE std::uint16_t absolute_y() { return indexed(absolute(), y); }
  SHOAL_INLINE std::uint16_t absolute_x_to_write() {
    return static_cast<std::uint16_t>(absolute() + x);
  }
  SHOAL_INLINE std::uint16_t absolute_y_to_write() {
    return static_cast<std::uint16_t>(absolute() + y);
  }
  // A pointer at 0xff goes on in page one.
  SHOAL_INLINE std::uint16_t pointed(std::uint8_t pointer) {
    const auto low = read_low(pointer);
    return static_cast<std::uint16_t>(low |
                                      (read_low(static_cast<std::uint16_t>(pointer + 1)) << 8));
  }
  SHOAL_INLINE std::uint16_t indirect_x() {
    return pointed(static_cast<std::uint8_t>(immediate() + x));
  }
  SHOAL_INLINE std::uint16_t indirect_y() { return indexed(pointed(immediate()), y); }
  SHOAL_INLINE std::uint16_t indirect_y_to_write() {
    return static_cast<std::uint16_t>(pointed(immediate()) + y);
  }

  // ---- Waiting ----

  // Skips rounds of a loop that does nothing but wait: `wanted` of them, if so many instructions
  // may be executed, two in a round. Returns their number.
  SHOAL_INLINE std::uint32_t skip_rounds(std::int64_t wanted, int cycles_of_round) {
    const auto rounds =
        static_cast<std::uint32_t>(std::min<std::int64_t>(wanted, (instructions_left - 1) / 2));
    cycles += rounds * static_cast<std::uint32_t>(cycles_of_round);
    instructions_left -= 2 * rounds;
    return rounds;
  }
  // The cycles of a taken branch with two bytes before `after` that leads back by `distance`.
  SHOAL_INLINE static int cycles_back(std::uint16_t after, unsigned distance) {
    return crosses_page(after, after - distance) ? 4 : 3;
  }
  // Reads the operand of a load. If the load reads the timer, and the next instruction branches
  // back to it until the timer is zero or has run out, all rounds but the last are counted: until
  // then the loop changes nothing.
  SHOAL_INLINE std::uint8_t load_absolute() {
    const auto address = absolute();
    if ((address & 0x1285) == 0x0284) wait_for_timer();
    return read(address);
  }
  __attribute__((noinline)) static std::int64_t rounds_of_timer(const M6532& timer, bool to_zero,
                                                                std::uint32_t cycles, int round) {
    // It counts down in steps of 2^shift cycles, and is 0 or more up to `last`.
    const std::int64_t steps = timer.*reveal(myTimer{});
    const auto shift = timer.*reveal(myIntervalShift{});
    const std::int64_t now = std::int64_t{cycles} - 1 - timer.*reveal(myCyclesWhenTimerSet{});
    const std::int64_t last = ((to_zero ? steps - 1 : steps) << shift) - 1;
    const bool positive = to_zero || steps - (now >> shift) - 1 < 0x80;
    return now >= 0 && last > now && positive ? (last - now) / round : 0;
  }
  SHOAL_INLINE void wait_for_timer() {
    constexpr std::uint16_t kBneBack = 0xfbd0, kBplBack = 0xfb10;
    std::uint16_t next = 0;
    if (at > end || riot == nullptr) return;
    std::memcpy(&next, reinterpret_cast<const void*>(at), sizeof next);
    if (next != kBneBack && next != kBplBack) return;
    const int round = 4 + cycles_back(static_cast<std::uint16_t>(pc() + 2), 5);
    skip_rounds(rounds_of_timer(*riot, next == kBneBack, cycles, round), round);
  }
  // BNE or BPL. Back to DEX or DEY, the rounds are counted until the last.
  SHOAL_INLINE void branch_of_loop(bool taken, bool to_zero) {
    constexpr std::uint16_t kBackBy3 = 0xfd;
    if (taken && static_cast<std::uint8_t>(operand) == kBackBy3 && at >= begin + 2 && at <= end) {
      const auto count = reinterpret_cast<const std::uint8_t*>(at)[-2];
      const int round = 2 + cycles_back(static_cast<std::uint16_t>(pc() + 1), 3);
      if (count == 0xca && x == static_cast<std::uint8_t>(result)) {
        if (const auto rounds = skip_rounds(x - (to_zero ? 1 : 0), round))
          set_x(x - static_cast<int>(rounds));
      } else if (count == 0x88 && y == static_cast<std::uint8_t>(result)) {
        if (const auto rounds = skip_rounds(y - (to_zero ? 1 : 0), round))
          set_y(y - static_cast<int>(rounds));
      }
    }
    branch(taken);
  }

  // ---- Flags ----

  SHOAL_INLINE bool zero() const { return (result & 0xff) == 0; }
  SHOAL_INLINE bool negative() const { return (result & 0x8080) != 0; }
  SHOAL_INLINE void set_result(bool is_zero, bool is_negative) {
    result = (is_zero ? 0 : 1) | (is_negative ? 0x8000 : 0);
  }
  SHOAL_INLINE void show(std::uint8_t value) { result = value; }
  SHOAL_INLINE std::uint8_t status() const {
    return static_cast<std::uint8_t>(0x20 | (negative() ? 0x80 : 0) | (overflow ? 0x40 : 0) |
                                     (with_break ? 0x10 : 0) | (decimal ? 0x08 : 0) |
                                     (no_interrupts ? 0x04 : 0) | (zero() ? 0x02 : 0) |
                                     (carry ? 0x01 : 0));
  }
  SHOAL_INLINE void set_status(std::uint8_t bits) {
    set_result((bits & 0x02) != 0, is_negative(bits));
    overflow = (bits & 0x40) != 0;
    with_break = true;  // always set in a 6507
    decimal = (bits & 0x08) != 0;
    no_interrupts = (bits & 0x04) != 0;
    carry = (bits & 0x01) != 0;
  }

  // ---- Operations ----

  SHOAL_INLINE void set_a(int value) { show(a = static_cast<std::uint8_t>(value)); }
  SHOAL_INLINE void set_x(int value) { show(x = static_cast<std::uint8_t>(value)); }
  SHOAL_INLINE void set_y(int value) { show(y = static_cast<std::uint8_t>(value)); }
  SHOAL_INLINE void add_binary(std::uint8_t value) {
    const unsigned sum = a + value + (carry ? 1U : 0U);
    overflow = (~(a ^ value) & (a ^ sum) & 0x80) != 0;
    carry = sum > 0xff;
    set_a(static_cast<int>(sum));
  }
  SHOAL_INLINE void add(std::uint8_t value) {
    if (!decimal) [[likely]] {
      add_binary(value);
      return;
    }
    const auto before = a;
    const int sum = decimal_of[0][a] + decimal_of[0][value] + (carry ? 1 : 0);
    carry = sum > 99;
    set_a(decimal_of[1][sum & 0xff]);
    overflow = ((before ^ a) & (a ^ value) & 0x80) != 0;
  }
  SHOAL_INLINE void subtract(std::uint8_t value) {
    if (!decimal) [[likely]] {
      add_binary(static_cast<std::uint8_t>(~value));
      return;
    }
    const auto before = a;
    int difference = decimal_of[0][a] - decimal_of[0][value] - (carry ? 0 : 1);
    if (difference < 0) difference += 100;
    // The borrow of a digit above nine leads into the other table, as it does in ALE.
    set_a(difference < 0 ? decimal_of[0][256 + difference] : decimal_of[1][difference]);
    carry = before >= value + (carry ? 0 : 1);
    overflow = ((before ^ a) & (a ^ value) & 0x80) != 0;
  }
  SHOAL_INLINE void compare(std::uint8_t with, std::uint8_t value) {
    show(static_cast<std::uint8_t>(with - value));
    carry = with >= value;
  }
  SHOAL_INLINE void test_bits(std::uint8_t value) {
    result = static_cast<std::uint32_t>(a & value) | ((value & 0x80U) << 8);
    overflow = (value & 0x40) != 0;
  }
  SHOAL_INLINE std::uint8_t shifted_left(std::uint8_t value, bool in) {
    carry = is_negative(value);
    return static_cast<std::uint8_t>((value << 1) | (in ? 1 : 0));
  }
  SHOAL_INLINE std::uint8_t shifted_right(std::uint8_t value, bool in) {
    carry = (value & 1) != 0;
    return static_cast<std::uint8_t>((value >> 1) | (in ? 0x80 : 0));
  }
  SHOAL_INLINE std::uint8_t asl(std::uint8_t value) { return shifted_left(value, false); }
  SHOAL_INLINE std::uint8_t lsr(std::uint8_t value) { return shifted_right(value, false); }
  SHOAL_INLINE std::uint8_t rol(std::uint8_t value) { return shifted_left(value, carry); }
  SHOAL_INLINE std::uint8_t ror(std::uint8_t value) { return shifted_right(value, carry); }
  SHOAL_INLINE std::uint8_t inc(std::uint8_t value) { return static_cast<std::uint8_t>(value + 1); }
  SHOAL_INLINE std::uint8_t dec(std::uint8_t value) { return static_cast<std::uint8_t>(value - 1); }
  // Reads, changes and writes a byte, and returns it.
  template <std::uint8_t (Registers::*kHow)(std::uint8_t)>
  SHOAL_INLINE std::uint8_t change(std::uint16_t address) {
    const std::uint8_t value = (this->*kHow)(read(address));
    write(address, value);
    return value;
  }
  template <std::uint8_t (Registers::*kHow)(std::uint8_t)>
  SHOAL_INLINE std::uint8_t change_low(std::uint16_t address) {
    const std::uint8_t value = (this->*kHow)(read_low(address));
    write_low(address, value);
    return value;
  }
  SHOAL_INLINE void push(int value, bool was_read = true) {
    write_low(kStack + sp--, static_cast<std::uint8_t>(value), was_read);
  }
  // Reads where the stack is, too.
  SHOAL_INLINE std::uint8_t pull() {
    read_low(kStack + sp++);
    return read_low(kStack + sp);
  }
  SHOAL_INLINE std::uint16_t pull_address() {
    const auto low = pull();
    ++sp;
    return static_cast<std::uint16_t>(low | (read_low(kStack + sp) << 8));
  }
  SHOAL_INLINE void branch(bool taken) {
    const auto offset = static_cast<std::int8_t>(immediate());
    if (!taken) return;
    const auto from = pc(), target = static_cast<std::uint16_t>(from + offset);
    cycles += crosses_page(from, target) ? 2 : 1;
    jump(target);
  }
  // The undocumented stores, whose value depends on the address.
  SHOAL_INLINE void write_high(std::uint16_t address, int value) {
    write(address, static_cast<std::uint8_t>(value & ((address >> 8) + 1)));
  }
  SHOAL_INLINE void arr(std::uint8_t with) {
    const auto value = static_cast<std::uint8_t>(a & with);
    const auto rotated = static_cast<std::uint8_t>((value >> 1) | (carry ? 0x80 : 0));
    a = rotated;
    show(rotated);  // which is negative if the carry was set
    if (!decimal) {
      carry = (a & 0x40) != 0;
      overflow = ((a & 0x40) ^ ((a & 0x20) << 1)) != 0;
      return;
    }
    overflow = ((value ^ rotated) & 0x40) != 0;
    if ((value & 0x0f) + (value & 0x01) > 0x05)
      a = static_cast<std::uint8_t>((a & 0xf0) | ((a + 0x06) & 0x0f));
    carry = (value & 0xf0) + (value & 0x10) > 0x50;
    if (carry) a = static_cast<std::uint8_t>(a + 0x60);
  }

  // Executes the instruction `opcode`. Returns false if there is none.
  SHOAL_INLINE bool execute() {
    switch (opcode) {
      // clang-format off
      // Loads
      case 0xa9: set_a(immediate()); break;
      case 0xa5: set_a(read_low(zero_page())); break;
      case 0xb5: set_a(read_low(zero_page_x())); break;
      case 0xad: set_a(load_absolute()); break;
      case 0xbd: set_a(read(absolute_x())); break;
      case 0xb9: set_a(read(absolute_y())); break;
      case 0xa1: set_a(read(indirect_x())); break;
      case 0xb1: set_a(read(indirect_y())); break;
      case 0xa2: set_x(immediate()); break;
      case 0xa6: set_x(read_low(zero_page())); break;
      case 0xb6: set_x(read_low(zero_page_y())); break;
      case 0xae: set_x(load_absolute()); break;
      case 0xbe: set_x(read(absolute_y())); break;
      case 0xa0: set_y(immediate()); break;
      case 0xa4: set_y(read_low(zero_page())); break;
      case 0xb4: set_y(read_low(zero_page_x())); break;
      case 0xac: set_y(load_absolute()); break;
      case 0xbc: set_y(read(absolute_x())); break;
      // Stores
      case 0x85: write_low(zero_page(), a); break;
      case 0x95: write_low(zero_page_x(), a); break;
      case 0x8d: write(absolute(), a); break;
      case 0x9d: write(absolute_x_to_write(), a); break;
      case 0x99: write(absolute_y_to_write(), a); break;
      case 0x81: write(indirect_x(), a); break;
      case 0x91: write(indirect_y_to_write(), a); break;
      case 0x86: write_low(zero_page(), x); break;
      case 0x96: write_low(zero_page_y(), x); break;
      case 0x8e: write(absolute(), x); break;
      case 0x84: write_low(zero_page(), y); break;
      case 0x94: write_low(zero_page_x(), y); break;
      case 0x8c: write(absolute(), y); break;
      // Arithmetic and logic
      case 0x69: add(immediate()); break;
      case 0x65: add(read_low(zero_page())); break;
      case 0x75: add(read_low(zero_page_x())); break;
      case 0x6d: add(read(absolute())); break;
      case 0x7d: add(read(absolute_x())); break;
      case 0x79: add(read(absolute_y())); break;
      case 0x61: add(read(indirect_x())); break;
      case 0x71: add(read(indirect_y())); break;
      case 0xe9: subtract(immediate()); break;
      case 0xe5: subtract(read_low(zero_page())); break;
      case 0xf5: subtract(read_low(zero_page_x())); break;
      case 0xed: subtract(read(absolute())); break;
      case 0xfd: subtract(read(absolute_x())); break;
      case 0xf9: subtract(read(absolute_y())); break;
      case 0xe1: subtract(read(indirect_x())); break;
      case 0xf1: subtract(read(indirect_y())); break;
      case 0xeb: subtract(immediate()); break;
      case 0x09: set_a(a | immediate()); break;
      case 0x05: set_a(a | read_low(zero_page())); break;
      case 0x15: set_a(a | read_low(zero_page_x())); break;
      case 0x0d: set_a(a | read(absolute())); break;
      case 0x1d: set_a(a | read(absolute_x())); break;
      case 0x19: set_a(a | read(absolute_y())); break;
      case 0x01: set_a(a | read(indirect_x())); break;
      case 0x11: set_a(a | read(indirect_y())); break;
      case 0x29: set_a(a & immediate()); break;
      case 0x25: set_a(a & read_low(zero_page())); break;
      case 0x35: set_a(a & read_low(zero_page_x())); break;
      case 0x2d: set_a(a & read(absolute())); break;
      case 0x3d: set_a(a & read(absolute_x())); break;
      case 0x39: set_a(a & read(absolute_y())); break;
      case 0x21: set_a(a & read(indirect_x())); break;
      case 0x31: set_a(a & read(indirect_y())); break;
      case 0x49: set_a(a ^ immediate()); break;
      case 0x45: set_a(a ^ read_low(zero_page())); break;
      case 0x55: set_a(a ^ read_low(zero_page_x())); break;
      case 0x4d: set_a(a ^ read(absolute())); break;
      case 0x5d: set_a(a ^ read(absolute_x())); break;
      case 0x59: set_a(a ^ read(absolute_y())); break;
      case 0x41: set_a(a ^ read(indirect_x())); break;
      case 0x51: set_a(a ^ read(indirect_y())); break;
      case 0xc9: compare(a, immediate()); break;
      case 0xc5: compare(a, read_low(zero_page())); break;
      case 0xd5: compare(a, read_low(zero_page_x())); break;
      case 0xcd: compare(a, read(absolute())); break;
      case 0xdd: compare(a, read(absolute_x())); break;
      case 0xd9: compare(a, read(absolute_y())); break;
      case 0xc1: compare(a, read(indirect_x())); break;
      case 0xd1: compare(a, read(indirect_y())); break;
      case 0xe0: compare(x, immediate()); break;
      case 0xe4: compare(x, read_low(zero_page())); break;
      case 0xec: compare(x, read(absolute())); break;
      case 0xc0: compare(y, immediate()); break;
      case 0xc4: compare(y, read_low(zero_page())); break;
      case 0xcc: compare(y, read(absolute())); break;
      case 0x24: test_bits(read_low(zero_page())); break;
      case 0x2c: test_bits(read(absolute())); break;
      // Shifts and counting
      case 0x0a: set_a(asl(a)); break;
      case 0x06: show(change_low<&Registers::asl>(zero_page())); break;
      case 0x16: show(change_low<&Registers::asl>(zero_page_x())); break;
      case 0x0e: show(change<&Registers::asl>(absolute())); break;
      case 0x1e: show(change<&Registers::asl>(absolute_x_to_write())); break;
      case 0x2a: set_a(rol(a)); break;
      case 0x26: show(change_low<&Registers::rol>(zero_page())); break;
      case 0x36: show(change_low<&Registers::rol>(zero_page_x())); break;
      case 0x2e: show(change<&Registers::rol>(absolute())); break;
      case 0x3e: show(change<&Registers::rol>(absolute_x_to_write())); break;
      case 0x4a: set_a(lsr(a)); break;
      case 0x46: show(change_low<&Registers::lsr>(zero_page())); break;
      case 0x56: show(change_low<&Registers::lsr>(zero_page_x())); break;
      case 0x4e: show(change<&Registers::lsr>(absolute())); break;
      case 0x5e: show(change<&Registers::lsr>(absolute_x_to_write())); break;
      case 0x6a: set_a(ror(a)); break;
      case 0x66: show(change_low<&Registers::ror>(zero_page())); break;
      case 0x76: show(change_low<&Registers::ror>(zero_page_x())); break;
      case 0x6e: show(change<&Registers::ror>(absolute())); break;
      case 0x7e: show(change<&Registers::ror>(absolute_x_to_write())); break;
      case 0xe6: show(change_low<&Registers::inc>(zero_page())); break;
      case 0xf6: show(change_low<&Registers::inc>(zero_page_x())); break;
      case 0xee: show(change<&Registers::inc>(absolute())); break;
      case 0xfe: show(change<&Registers::inc>(absolute_x_to_write())); break;
      case 0xc6: show(change_low<&Registers::dec>(zero_page())); break;
      case 0xd6: show(change_low<&Registers::dec>(zero_page_x())); break;
      case 0xce: show(change<&Registers::dec>(absolute())); break;
      case 0xde: show(change<&Registers::dec>(absolute_x_to_write())); break;
      case 0xe8: set_x(x + 1); break;
      case 0xca: set_x(x - 1); break;
      case 0xc8: set_y(y + 1); break;
      case 0x88: set_y(y - 1); break;
      // Registers and flags
      case 0xaa: set_x(a); break;
      case 0xa8: set_y(a); break;
      case 0x8a: set_a(x); break;
      case 0x98: set_a(y); break;
      case 0xba: set_x(sp); break;
      case 0x9a: sp = x; break;
      case 0x18: carry = false; break;
      case 0x38: carry = true; break;
      case 0x58: no_interrupts = false; break;
      case 0x78: no_interrupts = true; break;
      case 0xb8: overflow = false; break;
      case 0xd8: decimal = false; break;
      case 0xf8: decimal = true; break;
      // Branches
      case 0x10: branch_of_loop(!negative(), false); break;
      case 0x30: branch(negative()); break;
      case 0x50: branch(!overflow); break;
      case 0x70: branch(overflow); break;
      case 0x90: branch(!carry); break;
      case 0xb0: branch(carry); break;
      case 0xd0: branch_of_loop(!zero(), true); break;
      case 0xf0: branch(zero()); break;
      // Jumps and the stack
      case 0x4c: jump(absolute()); break;
      case 0x6c: {
        const auto low = absolute();
        const auto next = static_cast<std::uint16_t>(low + 1);
        // The high byte comes from the same page.
        jump(word(low, crosses_page(low, next) ? low & 0xff00 : next));
        break;
      }
      case 0x20: {
        // The high byte of the address is read last.
        const std::uint8_t low = immediate();
        const auto from = pc();
        read_low(kStack + sp);
        push(from >> 8);
        push(from & 0xff, false);
        jump(static_cast<std::uint16_t>(low | (read(from) << 8)));
        break;
      }
      case 0x60: {
        // To the last byte of JSR, which is read again.
        jump(pull_address());
        read(pc());
        skip(1);
        break;
      }
      case 0x40: {
        set_status(pull());
        ++sp;
        const std::uint16_t low = read_low(kStack + sp++);
        jump(static_cast<std::uint16_t>(low | (read_low(kStack + sp) << 8)));
        break;
      }
      case 0x00: {
        immediate();
        with_break = true;
        const auto from = pc();
        push(from >> 8);
        push(from & 0xff, false);
        push(status(), false);
        no_interrupts = true;
        jump(word(0xfffe, 0xffff));
        break;
      }
      case 0x48: push(a); break;
      case 0x08: push(status()); break;
      case 0x68: set_a(pull()); break;
      case 0x28: set_status(pull()); break;
      // Instructions without a name in the manual, as games use them
      case 0x0f: set_a(a | change<&Registers::asl>(absolute())); break;
      case 0x1f: set_a(a | change<&Registers::asl>(absolute_x_to_write())); break;
      case 0x1b: set_a(a | change<&Registers::asl>(absolute_y_to_write())); break;
      case 0x07: set_a(a | change_low<&Registers::asl>(zero_page())); break;
      case 0x17: set_a(a | change_low<&Registers::asl>(zero_page_x())); break;
      case 0x03: set_a(a | change<&Registers::asl>(indirect_x())); break;
      case 0x13: set_a(a | change<&Registers::asl>(indirect_y_to_write())); break;
      case 0x2f: set_a(a & change<&Registers::rol>(absolute())); break;
      case 0x3f: set_a(a & change<&Registers::rol>(absolute_x_to_write())); break;
      case 0x3b: set_a(a & change<&Registers::rol>(absolute_y_to_write())); break;
      case 0x27: set_a(a & change_low<&Registers::rol>(zero_page())); break;
      case 0x37: set_a(a & change_low<&Registers::rol>(zero_page_x())); break;
      case 0x23: set_a(a & change<&Registers::rol>(indirect_x())); break;
      case 0x33: set_a(a & change<&Registers::rol>(indirect_y_to_write())); break;
      case 0x4f: set_a(a ^ change<&Registers::lsr>(absolute())); break;
      case 0x5f: set_a(a ^ change<&Registers::lsr>(absolute_x_to_write())); break;
      case 0x5b: set_a(a ^ change<&Registers::lsr>(absolute_y_to_write())); break;
      case 0x47: set_a(a ^ change_low<&Registers::lsr>(zero_page())); break;
      case 0x57: set_a(a ^ change_low<&Registers::lsr>(zero_page_x())); break;
      case 0x43: set_a(a ^ change<&Registers::lsr>(indirect_x())); break;
      case 0x53: set_a(a ^ change<&Registers::lsr>(indirect_y_to_write())); break;
      case 0x6f: add(change<&Registers::ror>(absolute())); break;
      case 0x7f: add(change<&Registers::ror>(absolute_x_to_write())); break;
      case 0x7b: add(change<&Registers::ror>(absolute_y_to_write())); break;
      case 0x67: add(change_low<&Registers::ror>(zero_page())); break;
      case 0x77: add(change_low<&Registers::ror>(zero_page_x())); break;
      case 0x63: add(change<&Registers::ror>(indirect_x())); break;
      case 0x73: add(change<&Registers::ror>(indirect_y_to_write())); break;
      case 0xef: subtract(change<&Registers::inc>(absolute())); break;
      case 0xff: subtract(change<&Registers::inc>(absolute_x_to_write())); break;
      case 0xfb: subtract(change<&Registers::inc>(absolute_y_to_write())); break;
      case 0xe7: subtract(change_low<&Registers::inc>(zero_page())); break;
      case 0xf7: subtract(change_low<&Registers::inc>(zero_page_x())); break;
      case 0xe3: subtract(change<&Registers::inc>(indirect_x())); break;
      case 0xf3: subtract(change<&Registers::inc>(indirect_y_to_write())); break;
      case 0xcf: compare(a, change<&Registers::dec>(absolute())); break;
      case 0xdf: compare(a, change<&Registers::dec>(absolute_x_to_write())); break;
      case 0xdb: compare(a, change<&Registers::dec>(absolute_y_to_write())); break;
      case 0xc7: compare(a, change_low<&Registers::dec>(zero_page())); break;
      case 0xd7: compare(a, change_low<&Registers::dec>(zero_page_x())); break;
      case 0xc3: compare(a, change<&Registers::dec>(indirect_x())); break;
      case 0xd3: compare(a, change<&Registers::dec>(indirect_y_to_write())); break;
      case 0x8f: write(absolute(), a & x); break;
      case 0x87: write_low(zero_page(), a & x); break;
      case 0x97: write_low(zero_page_y(), a & x); break;
      case 0x83: write(indirect_x(), a & x); break;
      case 0xaf: set_a(x = read(absolute())); break;
      case 0xbf: set_a(x = read(absolute_y())); break;
      case 0xa7: set_a(x = read_low(zero_page())); break;
      case 0xb7: set_a(x = read_low(zero_page_y())); break;
      case 0xa3: set_a(x = read(indirect_x())); break;
      case 0xb3: set_a(x = read(indirect_y())); break;
      case 0x4b: set_a(lsr(a & immediate())); break;
      case 0x0b:
      case 0x2b:
        set_a(a & immediate());
        carry = negative();
        break;
      case 0x8b: set_a((a | 0xee) & x & immediate()); break;
      case 0xab: set_a(x = (a | 0xee) & immediate()); break;
      case 0x6b: arr(immediate()); break;
      case 0xbb: set_a(x = sp = sp & read(absolute_y())); break;
      case 0xcb: {
        const std::uint8_t value = immediate(), both = a & x;
        carry = both >= value;
        set_x(both - value);
        break;
      }
      case 0x9f: write_high(absolute_y_to_write(), a & x); break;
      case 0x93: write_high(indirect_y_to_write(), a & x); break;
      case 0x9b: {
        const auto address = absolute_y_to_write();
        sp = a & x;
        write_high(address, sp);
        break;
      }
      case 0x9e: write_high(absolute_y_to_write(), x); break;
      case 0x9c: write_high(absolute_x_to_write(), y); break;
      // Nothing, with or without reading
      case 0x1a:
      case 0x3a:
      case 0x5a:
      case 0x7a:
      case 0xda:
      case 0xea:
      case 0xfa: break;
      case 0x80:
      case 0x82:
      case 0x89:
      case 0xc2:
      case 0xe2: immediate(); break;
      case 0x04:
      case 0x44:
      case 0x64: read_low(zero_page()); break;
      case 0x14:
      case 0x34:
      case 0x54:
      case 0x74:
      case 0xd4:
      case 0xf4: read_low(zero_page_x()); break;
      case 0x0c: read(absolute()); break;
      case 0x1c:
      case 0x3c:
      case 0x5c:
      case 0x7c:
      case 0xdc:
      case 0xfc: read(absolute_x()); break;
      // clang-format on
      default:
        return false;
    }
    return true;
  }
};

#if SHOAL_X86
std::uint32_t read_for(Machine& m, std::uint32_t address) {
  auto& r = *static_cast<Registers*>(m.chips);
  r.bus = m.bus;
  r.cycles = m.cycles;
  r.read(static_cast<std::uint16_t>(address));
  m.bus = r.bus;
  m.cycles = r.cycles;
  m.stops |= r.end == 0;
  return m.bus;
}
void write_for(Machine& m, std::uint32_t address, std::uint32_t value) {
  auto& r = *static_cast<Registers*>(m.chips);
  r.cycles = m.cycles;
  r.write(static_cast<std::uint16_t>(address), static_cast<std::uint8_t>(value));
  m.bus = r.bus;
  m.cycles = r.cycles;
  m.stops |= r.end == 0;
}
template <int kAddress>
void write_tia_for(Machine& m, std::uint32_t value) {
  auto& r = *static_cast<Registers*>(m.chips);
  m.bus = static_cast<std::uint8_t>(value);
  r.system_cycles = m.cycles;
  r.system_read = true;
  r.tia->write<kAddress>(m.bus);
  m.cycles = r.system_cycles;
  m.stops |= r.stopped != 0;
}
template <int... kAddresses>
constexpr auto writes_for(std::integer_sequence<int, kAddresses...>) {
  return std::array{write_tia_for<kAddresses>...};
}
constexpr auto kWriteTia = writes_for(std::make_integer_sequence<int, TIA::kRegisters>());

// Runs translated code from r.at on.
void run(Program& program, Registers& r) {
  Machine m{.ram = r.ram,
            .program = reinterpret_cast<const std::uint8_t*>(r.begin),
            .cycles = r.cycles,
            .instructions_left = r.instructions_left,
            .a = r.a,
            .x = r.x,
            .y = r.y,
            .result = r.result,
            .pc = r.pc(),
            .opcode = r.opcode,
            .bus = r.bus,
            .sp = r.sp,
            .carry = r.carry,
            .overflow = r.overflow,
            .decimal = r.decimal,
            .no_interrupts = r.no_interrupts,
            .with_break = r.with_break,
            .stops = 0,
            .misses = 0,
            .chips = &r};
  program.run(m);
  r.cycles = m.cycles, r.instructions_left = m.instructions_left;
  r.a = static_cast<std::uint8_t>(m.a), r.x = static_cast<std::uint8_t>(m.x);
  r.y = static_cast<std::uint8_t>(m.y), r.result = m.result;
  r.opcode = m.opcode, r.bus = m.bus, r.sp = m.sp;
  r.carry = m.carry != 0, r.overflow = m.overflow != 0;
  r.decimal = m.decimal != 0, r.no_interrupts = m.no_interrupts != 0;
  if (m.stops != 0)
    r.leave_window(m.pc);
  else
    r.jump(m.pc);
}

// Cartridges whose programs are in memory that never changes, and that leave the lower addresses to
// the chips.
bool is_plain(const std::string& cartridge) {
  constexpr std::string_view kPlain[] = {"2K",   "4K", "F4",   "F4SC", "F6",
                                         "F6SC", "F8", "F8SC", "E0",   "CV"};
  return std::ranges::any_of(
      kPlain, [&](auto each) { return cartridge == "Cartridge" + std::string(each); });
}
#endif

}  // namespace

namespace ale::stella {

#if SHOAL_X86
Program* M6502Low::program_in(const Known& window) {
  for (const auto& each : known_)
    if (each.memory == window.memory && each.origin == window.origin && each.size == window.size)
      return each.program;
  const auto remember = [&](Program* program) {
    known_[oldest_] = window;
    known_[oldest_].program = program;
    oldest_ = (oldest_ + 1) % known_.size();
    return program;
  };
  const auto begin = static_cast<std::uint16_t>(window.memory - window.origin);
  const auto* const pages = &mySystem->getPageAccess(0);
  if ((begin & 0x1000) == 0 || !is_plain(pages[(begin & 0x1fff) >> 6].device->name()))
    return remember(nullptr);
  for (int page = 0; page < 128; ++page)
    if (reinterpret_cast<std::uintptr_t>(pages[page].directPokeBase) - window.memory < window.size)
      return remember(nullptr);
  constexpr Chips kChips{.read = read_for, .write = write_for, .write_tia = kWriteTia.data()};
  Program* program = nullptr;
  if (Program::find(reinterpret_cast<const std::uint8_t*>(window.memory), window.size, begin,
                    ourInstructionProcessorCycleTable, kChips, program))
    remember(program);
  return program;
}
#endif

M6502Low::M6502Low(uint32_t systemCyclesPerProcessorCycle) : M6502(systemCyclesPerProcessorCycle) {}
M6502Low::~M6502Low() = default;

const char* M6502Low::name() const { return "M6502Low"; }

// Executes until a chip stops the processor, or `number` instructions.
bool M6502Low::execute(uint32_t number) {
  System& system = *mySystem;
  myExecutionStatus &= FatalErrorBit;
  constexpr std::uint16_t kRam = 0x80, kTimer = 0x280;
  Registers r{.pages = &system.getPageAccess(0),
              .ram = system.getPageAccess(kRam >> 6).directPokeBase,
              .tia = &system.tia(),
              .riot = dynamic_cast<M6532*>(system.getPageAccess(kTimer >> 6).device),
              .system_cycles = system.*reveal(myCycles{}),
              .system_bus = system.*reveal(myDataBusState{}),
              .system_read = myLastAccessWasRead,
              .stopped = myExecutionStatus,
              .decimal_of = ourBCDTable,
              .cycles_of = ourInstructionProcessorCycleTable,
              .instructions_left = number,
              .cycles = system.cycles(),
              .a = A,
              .x = X,
              .y = Y,
              .sp = SP,
              .opcode = IR,
              .bus = system.getDataBusState(),
              .overflow = V,
              .decimal = D,
              .no_interrupts = I,
              .carry = C,
              .with_break = B};
  r.set_result(!notZ, N);
  r.leave_window(PC);
#if SHOAL_X86
  Known window;
#endif
  for (; r.instructions_left != 0; --r.instructions_left) {
#if SHOAL_X86
    if (r.end != 0) {
      if (r.begin != window.memory || r.origin != window.origin || r.window_size() != window.size) {
        window = {r.begin, r.origin, r.window_size(), nullptr};
        window.program = program_in(window);
      }
      if (window.program != nullptr) run(*window.program, r);
      if (r.instructions_left == 0) break;
    }
#endif
    if (!r.fetch()) break;
    if (!r.execute()) [[unlikely]] {
      myExecutionStatus |= FatalErrorBit;
      std::cerr << "Illegal Instruction! " << std::hex << int{r.opcode} << std::endl;
      r.leave_window(r.pc());
    }
  }
  A = r.a, X = r.x, Y = r.y, SP = r.sp, IR = r.opcode, PC = r.pc();
  N = r.negative(), V = r.overflow, B = r.with_break, D = r.decimal, I = r.no_interrupts;
  C = r.carry;
  notZ = !r.zero();
  system.*reveal(myCycles{}) = r.cycles;
  system.*reveal(myDataBusState{}) = r.bus;
  // Nothing in this console asks for an interrupt.
  return (myExecutionStatus & FatalErrorBit) == 0;
}

bool M6502Low::save(Serializer& out) {
  out.putString(name());
  for (const int number : {int{A}, int{X}, int{Y}, int{SP}, int{IR}, int{PC}}) out.putInt(number);
  for (const bool flag : {N, V, B, D, I, notZ, C}) out.putBool(flag);
  out.putInt(myExecutionStatus);
  return true;
}

bool M6502Low::load(Deserializer& in) {
  if (in.getString() != name()) return false;
  for (auto* number : {&A, &X, &Y, &SP, &IR}) *number = static_cast<std::uint8_t>(in.getInt());
  PC = static_cast<std::uint16_t>(in.getInt());
  for (auto* flag : {&N, &V, &B, &D, &I, &notZ, &C}) *flag = in.getBool();
  myExecutionStatus = static_cast<std::uint8_t>(in.getInt());
  return true;
}

}  // namespace ale::stella
