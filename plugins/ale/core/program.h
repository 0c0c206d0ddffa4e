// SPDX-License-Identifier: GPL-2.0-only
#ifndef SHOAL_PLUGINS_ALE_CORE_PROGRAM_H_
#define SHOAL_PLUGINS_ALE_CORE_PROGRAM_H_

#include <cstddef>
#include <cstdint>

#include "machine.h"
#include "translation.h"

// A part of a cartridge as the processor sees it, and its translation. Shared by all consoles of
// this process that run it.
class Program {
 public:
  // Sets `found`, to null if this process may not write code, or has no room for more. `bytes`
  // never change. cycles: the base cycles of each instruction. False: another thread writes code;
  // ask again.
  static bool find(const std::uint8_t* bytes, std::size_t size, std::uint16_t begin,
                   const std::uint32_t (&cycles)[256], const Chips& chips, Program*& found);

  // Runs from machine.pc on, translating what it reaches, until an instruction that is not
  // translated: the next one at machine.pc, which may be in another program.
  void run(Machine& machine);

 private:
  explicit Program(const ProgramText& text);
  // False if the interpreter is to execute what is there.
  bool translate(std::uint16_t pc);
  std::size_t place_of(std::uint16_t pc) const {
    return static_cast<std::uint16_t>(pc - text_.begin);
  }

  ProgramText text_;
  Program* next_ = nullptr;  // of all programs
};

#endif  // SHOAL_PLUGINS_ALE_CORE_PROGRAM_H_
