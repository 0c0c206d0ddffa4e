#include "tests/support/allocations.h"

#include <atomic>
#include <cstddef>

namespace {
std::atomic<long> count{0};
}

// Replaces malloc itself, so that operator new and the emulator's library are counted, too.
extern "C" {
// NOLINTBEGIN(readability-identifier-naming): the C library's own
void* __libc_malloc(std::size_t size);
void* __libc_calloc(std::size_t n, std::size_t size);
void* __libc_realloc(void* p, std::size_t size);
// NOLINTEND(readability-identifier-naming)

void* malloc(std::size_t size) {
  count.fetch_add(1, std::memory_order_relaxed);
  return __libc_malloc(size);
}
void* calloc(std::size_t n, std::size_t size) {
  count.fetch_add(1, std::memory_order_relaxed);
  return __libc_calloc(n, size);
}
void* realloc(void* p, std::size_t size) {
  count.fetch_add(1, std::memory_order_relaxed);
  return __libc_realloc(p, size);
}
}

namespace shoal {
long allocations() { return count.load(); }
}  // namespace shoal
