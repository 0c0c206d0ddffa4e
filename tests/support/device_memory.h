#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <span>

namespace shoal::testing {

// Memory of the stand-in device: a region of its own that the host cannot read or write, but for
// the time in which the device works. A host loop over it ends the process, as on a GPU.
class DeviceMemory {
 public:
  static DeviceMemory& get();

  struct Block {
    std::byte* begin;
    std::size_t size;
    std::uint64_t number;  // never given twice, unlike the address
  };
  // Filled with a pattern that is NaN, or -1.
  void* allocate(std::size_t size);
  void free(void* begin);
  // The one that the address lies in; none if it is not of the device, or was freed.
  std::optional<Block> find(const void* address) const;

  // Memory of the host that the device may copy from and to without the host.
  void pin(std::span<const std::byte> memory);
  void unpin(const void* begin);
  bool is_pinned(const void* begin, std::size_t size) const;

  // The memory can be read and written while one of these exists.
  class Access {
   public:
    Access();
    ~Access();
    Access(const Access&) = delete;
    Access& operator=(const Access&) = delete;
  };

  static void fill(const Block& block);

 private:
  DeviceMemory();
  void protect(int protection) const;

  static constexpr std::size_t kSize = std::size_t{1} << 30, kAlignment = 64;
  std::byte* memory_;
  mutable std::mutex mutex_;
  std::map<const std::byte*, Block> blocks_;
  std::map<const std::byte*, std::size_t> pinned_;
  std::uint64_t blocks_so_far_ = 0;
  int accesses_ = 0;
};

}  // namespace shoal::testing
