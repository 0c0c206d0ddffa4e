// SPDX-License-Identifier: GPL-2.0-only
// Translates programs of the console to machine code of x86-64, block by block as they are reached.
#ifndef SHOAL_PLUGINS_ALE_CORE_TRANSLATOR_H_
#define SHOAL_PLUGINS_ALE_CORE_TRANSLATOR_H_

#include <cstddef>
#include <cstdint>
#include <vector>

// The console while translated code runs. The code keeps A, X, Y and `result` in registers.
struct Machine {
  std::uint8_t* ram;            // 128 bytes
  const std::uint8_t* program;  // the bytes of the Program
  std::uint32_t cycles, instructions_left;
  std::uint32_t a, x, y, result;  // result: see Registers in cpu.cc
  std::uint16_t pc;
  std::uint8_t opcode, bus;  // the last instruction, and the last byte on the data bus
  std::uint8_t sp, carry, overflow, decimal, no_interrupts, with_break;
  std::uint8_t stops;   // a chip has stopped the processor, or memory may have changed its place
  std::uint8_t misses;  // the code ended at an address that is not translated
  void* chips;          // for the functions of Chips
};

// How the code reaches what is not in RAM or in the program. Each is a function of the console's
// clock: Machine::cycles is right when they are called. They set Machine::bus and stops.
struct Chips {
  std::uint32_t (*read)(Machine& machine, std::uint32_t address);
  void (*write)(Machine& machine, std::uint32_t address, std::uint32_t value);
  // The same for a register of the TIA.
  void (*const* write_tia)(Machine& machine, std::uint32_t value);  // [64]
};

// A part of a cartridge as the processor sees it, and its translation. Shared by all consoles of
// this process that run it.
class Program {
 public:
  // `bytes` never change. Null if this process may not write code, or has no room for more.
  // cycles: the base cycles of each instruction.
  static Program* find(const std::uint8_t* bytes, std::size_t size, std::uint16_t begin,
                       const std::uint32_t (&cycles)[256], const Chips& chips);

  bool contains(std::uint16_t pc) const { return static_cast<std::size_t>(pc - begin_) < size_; }
  // Runs from machine.pc on, translating what it reaches, until an instruction that is not
  // translated: the next one at machine.pc, which may be in another program.
  void run(Machine& machine);

 private:
  friend class Translation;
  Program(const std::uint8_t* bytes, std::size_t size, std::uint16_t begin,
          const std::uint32_t (&cycles)[256], const Chips& chips);
  bool translate(std::uint16_t pc);

  std::vector<std::uint8_t> bytes_;
  std::size_t size_;
  std::uint16_t begin_;
  const std::uint32_t (&cycles_)[256];
  Chips chips_;
  const void** entries_;        // the code from each address on, or what reports a miss
  std::vector<bool> is_tried_;  // translating this address was tried
};

#endif  // SHOAL_PLUGINS_ALE_CORE_TRANSLATOR_H_
