// SPDX-License-Identifier: GPL-2.0-only
#ifndef SHOAL_PLUGINS_ALE_CORE_MACHINE_H_
#define SHOAL_PLUGINS_ALE_CORE_MACHINE_H_

#include <cstdint>

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

#endif  // SHOAL_PLUGINS_ALE_CORE_MACHINE_H_
