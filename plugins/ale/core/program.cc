// SPDX-License-Identifier: GPL-2.0-only
#include "program.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>
#include <utility>

#include "code_memory.h"

Program::Program(ProgramText text) : text_(std::move(text)), is_tried_(text_.bytes.size()) {
  std::fill_n(text_.entries, text_.bytes.size() + 1, CodeMemory::get().miss);
}

Program* Program::find(const std::uint8_t* bytes, std::size_t size, std::uint16_t begin,
                       const std::uint32_t (&cycles)[256], const Chips& chips) {
  auto& memory = CodeMemory::get();
  if (!memory.is_usable() || memory.busy.test_and_set(std::memory_order_acquire)) return nullptr;
  static std::vector<std::unique_ptr<Program>> known;
  const auto is_same = [&](const auto& each) {
    const auto& text = each->text_;
    return text.begin == begin &&
           std::equal(text.bytes.begin(), text.bytes.end(), bytes, bytes + size);
  };
  auto found = std::ranges::find_if(known, is_same);
  const auto room = (size + 1) * sizeof(void*);
  if (found == known.end() && memory.left() > room) {
    auto** const entries = static_cast<const void**>(memory.take(room));
    ProgramText text{{bytes, bytes + size}, begin, cycles, chips, entries};
    known.push_back(std::unique_ptr<Program>(new Program(std::move(text))));
    found = known.end() - 1;
  }
  auto* const program = found == known.end() ? nullptr : found->get();
  memory.busy.clear(std::memory_order_release);
  return program;
}

bool Program::translate(std::uint16_t pc) {
  auto& memory = CodeMemory::get();
  if (!text_.contains(pc) || memory.busy.test_and_set(std::memory_order_acquire)) return false;
  const std::atomic_ref entry(text_.entries[place_of(pc)]);
  bool done = entry.load() != memory.miss;
  if (!done && !is_tried_[place_of(pc)]) {
    is_tried_[place_of(pc)] = true;
    x86::Assembler code(memory.at(), memory.end());
    done = ::translate(text_, pc, code);
    if (done)
      entry.store(memory.take(static_cast<std::size_t>(code.at() - memory.at())),
                  std::memory_order_release);
  }
  memory.busy.clear(std::memory_order_release);
  return done;
}

void Program::run(Machine& machine) {
  do {
    machine.misses = 0;
    const std::atomic_ref entry(text_.entries[place_of(machine.pc)]);
    CodeMemory::get().enter(machine, entry.load(std::memory_order_acquire));
  } while (machine.misses != 0 && machine.stops == 0 && translate(machine.pc));
}
