// SPDX-License-Identifier: GPL-2.0-only
#ifndef SHOAL_PLUGINS_ALE_CORE_TRANSLATION_H_
#define SHOAL_PLUGINS_ALE_CORE_TRANSLATION_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "assembler.h"
#include "machine.h"

// A program, which the processor sees from the address `begin` on, and access to all else.
struct ProgramText {
  std::span<const std::uint8_t> bytes;
  std::uint16_t begin;
  const std::uint32_t* cycles;  // [256], the base cycles of each instruction
  Chips chips;
  const void** entries;  // the code from each address on, or CodeMemory::miss

  bool contains(std::uint16_t pc) const {
    return static_cast<std::uint16_t>(pc - begin) < bytes.size();
  }
};

// Writes the code of the block that begins at pc, and allocates nothing. False, and nothing to
// keep, if its first instruction is left to the interpreter, or there is no room.
bool translate(const ProgramText& program, std::uint16_t pc, x86::Assembler& code);

#endif  // SHOAL_PLUGINS_ALE_CORE_TRANSLATION_H_
