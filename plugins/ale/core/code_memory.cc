// SPDX-License-Identifier: GPL-2.0-only
#include "code_memory.h"

#include <sys/mman.h>

CodeMemory CodeMemory::memory_;

CodeMemory::CodeMemory() {
  void* const memory = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE | PROT_EXEC,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return;
  begin_ = at_ = static_cast<std::uint8_t*>(memory);
  end_ = begin_ + kBytes;
  using namespace x86;
  constexpr Register kSaved[] = {rbx, rbp, r12, r13, r14, r15};
  Assembler code(at_, end_);
  enter = reinterpret_cast<Enter>(code.at());
  for (const auto each : kSaved) code.push(each);
  code.push(rax);  // so that calls find the stack aligned
  code.mov64(kMachine, rdi);
  code.load64(kRam, SHOAL_FIELD(ram));
  code.load(kA, SHOAL_FIELD(a)), code.load(kX, SHOAL_FIELD(x)), code.load(kY, SHOAL_FIELD(y));
  code.load(kResult, SHOAL_FIELD(result));
  code.load16(rax, SHOAL_FIELD(pc));
  code.jump(rsi);
  miss = code.at();
  code.store8(SHOAL_FIELD(misses), std::uint8_t{1});
  skip = code.at();
  code.store16(SHOAL_FIELD(pc), rax);
  leave = code.at();
  code.store(SHOAL_FIELD(a), kA), code.store(SHOAL_FIELD(x), kX), code.store(SHOAL_FIELD(y), kY);
  code.store(SHOAL_FIELD(result), kResult);
  code.pop(rax);
  for (int i = 5; i >= 0; --i) code.pop(kSaved[i]);
  code.ret();
  take(static_cast<std::size_t>(code.at() - at_));
}
