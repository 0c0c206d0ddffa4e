#include "cli/allocations.h"

#include <cstdlib>
#include <new>

namespace {
thread_local std::int64_t count = 0;
}

// The other forms of operator new and delete call these, except that AddressSanitizer has a form of
// its own for std::nothrow, whose memory std::free() must not get.
void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  ++count;
  return std::malloc(size > 0 ? size : 1);
}
void* operator new(std::size_t size) {
  if (void* memory = operator new(size, std::nothrow)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

namespace shoal::cli {

std::int64_t allocations() { return count; }

}  // namespace shoal::cli
