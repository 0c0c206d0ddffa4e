// SPDX-License-Identifier: GPL-2.0-only
#include "program.h"

#include <algorithm>
#include <atomic>
#include <new>
#include <span>
#include <utility>

#include "code_memory.h"

Program::Program(const ProgramText& text) : text_(text) {
  std::fill_n(text_.entries, text_.bytes.size() + 1, CodeMemory::get().miss);
}

bool Program::find(const std::uint8_t* bytes, std::size_t size, std::uint16_t begin,
                   const std::uint32_t (&cycles)[256], const Chips& chips, Program*& found) {
  auto& memory = CodeMemory::get();
  found = nullptr;
  if (!memory.is_usable()) return true;
  const CodeMemory::Turn turn;
  if (!turn) return false;
  static Program* first = nullptr;
  for (auto* each = first; each != nullptr; each = each->next_) {
    if (each->text_.begin == begin &&
        std::ranges::equal(each->text_.bytes, std::span(bytes, size))) {
      found = each;
      return true;
    }
  }
  // All in the memory for code, which is never destroyed: a thread may emulate while the process
  // exits.
  const auto room = (size + 1) * sizeof(void*);
  if (memory.left() < room + size + sizeof(Program) + 3 * CodeMemory::kAlignment) return true;
  auto** const entries = static_cast<const void**>(memory.take(room));
  auto* const own = static_cast<std::uint8_t*>(memory.take(size));
  std::copy_n(bytes, size, own);
  found = new (memory.take(sizeof(Program))) Program({{own, size}, begin, cycles, chips, entries});
  found->next_ = std::exchange(first, found);
  return true;
}

bool Program::translate(std::uint16_t pc) {
  if (!text_.contains(pc)) return false;
  auto& memory = CodeMemory::get();
  const CodeMemory::Turn turn;
  if (!turn) return false;
  const std::atomic_ref entry(text_.entries[place_of(pc)]);
  if (entry.load() == memory.miss) {
    x86::Assembler code(memory.at(), memory.end());
    const void* translated = memory.skip;
    if (::translate(text_, pc, code))
      translated = memory.take(static_cast<std::size_t>(code.at() - memory.at()));
    entry.store(translated, std::memory_order_release);
  }
  return entry.load() != memory.skip;
}

void Program::run(Machine& machine) {
  // An instruction at the end of the text may have led the interpreter beyond it.
  if (!text_.contains(machine.pc)) return;
  do {
    machine.misses = 0;
    const std::atomic_ref entry(text_.entries[place_of(machine.pc)]);
    CodeMemory::get().enter(machine, entry.load(std::memory_order_acquire));
  } while (machine.misses != 0 && machine.stops == 0 && translate(machine.pc));
}
