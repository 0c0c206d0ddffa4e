#include "tests/support/device_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <new>

namespace shoal::testing {

DeviceMemory& DeviceMemory::get() {
  static auto* const kMemory =
      new DeviceMemory;  // never destroyed, because tensors may outlive static objects
  return *kMemory;
}

DeviceMemory::DeviceMemory()
    : memory_(static_cast<std::byte*>(
          mmap(nullptr, kSize, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0))) {
  if (memory_ == MAP_FAILED) throw std::bad_alloc();
}

void* DeviceMemory::allocate(std::size_t size) {
  if (size == 0) return nullptr;
  const Access access;
  const std::scoped_lock lock(mutex_);
  const auto wanted = (size + kAlignment - 1) / kAlignment * kAlignment;
  auto* begin = memory_;
  for (const auto& [address, block] : blocks_) {
    if (static_cast<std::size_t>(address - begin) >= wanted) break;
    begin = block.begin + (block.size + kAlignment - 1) / kAlignment * kAlignment;
  }
  if (begin + wanted > memory_ + kSize) throw std::bad_alloc();
  const Block block{begin, size, ++blocks_so_far_};
  fill(block);
  blocks_.emplace(begin, block);
  return begin;
}

void DeviceMemory::free(void* begin) {
  const std::scoped_lock lock(mutex_);
  blocks_.erase(static_cast<std::byte*>(begin));
}

std::optional<DeviceMemory::Block> DeviceMemory::find(const void* address) const {
  const std::scoped_lock lock(mutex_);
  const auto* at = static_cast<const std::byte*>(address);
  const auto after = blocks_.upper_bound(at);
  if (after == blocks_.begin()) return std::nullopt;
  const auto& block = std::prev(after)->second;
  return at < block.begin + block.size ? std::optional(block) : std::nullopt;
}

void DeviceMemory::pin(std::span<const std::byte> memory) {
  const std::scoped_lock lock(mutex_);
  pinned_[memory.data()] = memory.size();
}

void DeviceMemory::unpin(const void* begin) {
  const std::scoped_lock lock(mutex_);
  pinned_.erase(static_cast<const std::byte*>(begin));
}

bool DeviceMemory::is_pinned(const void* begin, std::size_t size) const {
  const std::scoped_lock lock(mutex_);
  const auto* at = static_cast<const std::byte*>(begin);
  return std::ranges::any_of(pinned_, [&](const auto& range) {
    return at >= range.first && at + size <= range.first + range.second;
  });
}

void DeviceMemory::fill(const Block& block) { std::memset(block.begin, 0xFF, block.size); }

void DeviceMemory::protect(int protection) const { mprotect(memory_, kSize, protection); }

DeviceMemory::Access::Access() {
  auto& memory = get();
  const std::scoped_lock lock(memory.mutex_);
  if (memory.accesses_++ == 0) memory.protect(PROT_READ | PROT_WRITE);
}

DeviceMemory::Access::~Access() {
  auto& memory = get();
  const std::scoped_lock lock(memory.mutex_);
  if (--memory.accesses_ == 0) memory.protect(PROT_NONE);
}

}  // namespace shoal::testing
