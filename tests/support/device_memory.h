#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <span>

namespace shoal::testing {

// Memory of the stand-in device: a region that the host cannot access except while the device
// works. A host loop over it ends the process, as on a GPU.
class DeviceMemory {
 public:
  static DeviceMemory& get();

  struct Block {
    std::byte* begin;
    std::size_t size;
    std::uint64_t number;  // unique, unlike the address
  };
  // The memory is filled with a pattern that reads as NaN, or -1.
  void* allocate(std::size_t size);
  void free(void* begin);
  // The block that contains the address; none if it is not device memory, or was freed.
  std::optional<Block> find(const void* address) const;

  // Registers host memory that the device may copy from and to asynchronously.
  void pin(std::span<const std::byte> memory);
  void unpin(const void* begin);
  bool is_pinned(const void* begin, std::size_t size) const;

  // The memory is accessible while an Access exists.
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
