// SPDX-License-Identifier: GPL-2.0-only
// The instructions of the 6507 that are translated.
#ifndef SHOAL_PLUGINS_ALE_CORE_INSTRUCTIONS_H_
#define SHOAL_PLUGINS_ALE_CORE_INSTRUCTIONS_H_

#include <array>
#include <cstdint>

enum class Do : std::uint8_t {
  kUnknown,
  kNothing,
  kLoad,
  kStore,
  kOr,
  kAnd,
  kXor,
  kAdd,
  kSubtract,
  kCompare,
  kTestBits,
  kShiftLeft,
  kShiftRight,
  kRotateLeft,
  kRotateRight,
  kIncrement,
  kDecrement,
  kCopy,
  kSetCarry,
  kSetDecimal,
  kSetInterrupts,
  kClearOverflow,
  kPush,
  kPushStatus,
  kPull,
  kBranch,
  kJump,
  kJumpThrough,
  kCall,
  kReturn
};
enum class On : std::uint8_t { kAccumulator, kIndexX, kIndexY, kStackPointer };
enum class Mode : std::uint8_t {
  kImplied,
  kImmediate,
  kZeroPage,
  kZeroPageX,
  kZeroPageY,
  kAbsolute,
  kAbsoluteX,
  kAbsoluteY,
  kIndirectX,
  kIndirectY
};

// What an instruction does; kUnknown: it is left to the interpreter.
struct Kind {
  Do what = Do::kUnknown;
  Mode mode = Mode::kImplied;
  On on = On::kAccumulator;  // the register that is loaded, stored, compared, changed or copied to
  On from = On::kAccumulator;  // of kCopy
  int value = 0;               // of a flag
};

inline constexpr std::array<Kind, 256> kKinds = [] {
  std::array<Kind, 256> k{};
  // The columns of the instructions on A.
  constexpr struct {
    int low;
    Mode mode;
  } kColumns[] = {{0x01, Mode::kIndirectX}, {0x05, Mode::kZeroPage},  {0x09, Mode::kImmediate},
                  {0x0d, Mode::kAbsolute},  {0x11, Mode::kIndirectY}, {0x15, Mode::kZeroPageX},
                  {0x19, Mode::kAbsoluteY}, {0x1d, Mode::kAbsoluteX}};
  constexpr Do kOnA[8] = {Do::kOr,    Do::kAnd,  Do::kXor,     Do::kAdd,
                          Do::kStore, Do::kLoad, Do::kCompare, Do::kSubtract};
  for (int row = 0; row < 8; ++row)
    for (const auto& column : kColumns)
      if (row != 4 || column.low != 0x09) k[32 * row + column.low] = {kOnA[row], column.mode};
  constexpr Do kChanges[8] = {Do::kShiftLeft, Do::kRotateLeft, Do::kShiftRight, Do::kRotateRight,
                              Do::kUnknown,   Do::kUnknown,    Do::kDecrement,  Do::kIncrement};
  for (int row = 0; row < 8; ++row) {
    if (row == 4 || row == 5) continue;
    k[32 * row + 0x06] = {kChanges[row], Mode::kZeroPage};
    k[32 * row + 0x16] = {kChanges[row], Mode::kZeroPageX};
    k[32 * row + 0x0e] = {kChanges[row], Mode::kAbsolute};
    if (row < 4) k[32 * row + 0x0a] = {kChanges[row], Mode::kImplied};
  }
  k[0xa2] = {Do::kLoad, Mode::kImmediate, On::kIndexX},
  k[0xa6] = {Do::kLoad, Mode::kZeroPage, On::kIndexX};
  k[0xb6] = {Do::kLoad, Mode::kZeroPageY, On::kIndexX},
  k[0xae] = {Do::kLoad, Mode::kAbsolute, On::kIndexX};
  k[0xbe] = {Do::kLoad, Mode::kAbsoluteY, On::kIndexX};
  k[0xa0] = {Do::kLoad, Mode::kImmediate, On::kIndexY},
  k[0xa4] = {Do::kLoad, Mode::kZeroPage, On::kIndexY};
  k[0xb4] = {Do::kLoad, Mode::kZeroPageX, On::kIndexY},
  k[0xac] = {Do::kLoad, Mode::kAbsolute, On::kIndexY};
  k[0xbc] = {Do::kLoad, Mode::kAbsoluteX, On::kIndexY};
  k[0x86] = {Do::kStore, Mode::kZeroPage, On::kIndexX},
  k[0x96] = {Do::kStore, Mode::kZeroPageY, On::kIndexX};
  k[0x8e] = {Do::kStore, Mode::kAbsolute, On::kIndexX};
  k[0x84] = {Do::kStore, Mode::kZeroPage, On::kIndexY},
  k[0x94] = {Do::kStore, Mode::kZeroPageX, On::kIndexY};
  k[0x8c] = {Do::kStore, Mode::kAbsolute, On::kIndexY};
  k[0xe0] = {Do::kCompare, Mode::kImmediate, On::kIndexX},
  k[0xe4] = {Do::kCompare, Mode::kZeroPage, On::kIndexX};
  k[0xec] = {Do::kCompare, Mode::kAbsolute, On::kIndexX};
  k[0xc0] = {Do::kCompare, Mode::kImmediate, On::kIndexY},
  k[0xc4] = {Do::kCompare, Mode::kZeroPage, On::kIndexY};
  k[0xcc] = {Do::kCompare, Mode::kAbsolute, On::kIndexY};
  k[0x24] = {Do::kTestBits, Mode::kZeroPage}, k[0x2c] = {Do::kTestBits, Mode::kAbsolute};
  k[0xe8] = {Do::kIncrement, Mode::kImplied, On::kIndexX},
  k[0xca] = {Do::kDecrement, Mode::kImplied, On::kIndexX};
  k[0xc8] = {Do::kIncrement, Mode::kImplied, On::kIndexY},
  k[0x88] = {Do::kDecrement, Mode::kImplied, On::kIndexY};
  k[0xaa] = {Do::kCopy, Mode::kImplied, On::kIndexX, On::kAccumulator},
  k[0xa8] = {Do::kCopy, Mode::kImplied, On::kIndexY, On::kAccumulator};
  k[0x8a] = {Do::kCopy, Mode::kImplied, On::kAccumulator, On::kIndexX},
  k[0x98] = {Do::kCopy, Mode::kImplied, On::kAccumulator, On::kIndexY};
  k[0xba] = {Do::kCopy, Mode::kImplied, On::kIndexX, On::kStackPointer};
  k[0x9a] = {Do::kCopy, Mode::kImplied, On::kStackPointer, On::kIndexX};
  k[0x18] = {Do::kSetCarry}, k[0x38] = {.what = Do::kSetCarry, .value = 1};
  k[0xd8] = {Do::kSetDecimal}, k[0xf8] = {.what = Do::kSetDecimal, .value = 1};
  k[0x58] = {Do::kSetInterrupts}, k[0x78] = {.what = Do::kSetInterrupts, .value = 1};
  k[0xb8] = {Do::kClearOverflow};
  k[0x48] = {Do::kPush}, k[0x08] = {Do::kPushStatus}, k[0x68] = {Do::kPull};
  for (int condition = 0; condition < 8; ++condition) k[0x10 + 32 * condition] = {Do::kBranch};
  k[0x4c] = {Do::kJump}, k[0x6c] = {Do::kJumpThrough}, k[0x20] = {Do::kCall},
  k[0x60] = {Do::kReturn};
  k[0xea] = {Do::kNothing};
  return k;
}();

// Its bytes, those that it fetches late included.
inline int bytes_of(const Kind& kind) {
  switch (kind.what) {
    case Do::kBranch:
      return 2;
    case Do::kJump:
    case Do::kJumpThrough:
    case Do::kCall:
      return 3;
    default:
      break;
  }
  switch (kind.mode) {
    case Mode::kImplied:
      return 1;
    case Mode::kAbsolute:
    case Mode::kAbsoluteX:
    case Mode::kAbsoluteY:
      return 3;
    default:
      return 2;
  }
}

// Where an address leads to; a program may be a part of what is there.
inline bool is_tia(std::uint32_t address) { return (address & 0x1080) == 0; }
inline bool is_ram(std::uint32_t address) { return (address & 0x1280) == 0x0080; }
inline bool is_program(std::uint32_t address) { return (address & 0x1000) != 0; }

#endif  // SHOAL_PLUGINS_ALE_CORE_INSTRUCTIONS_H_
