#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Storage.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/util/ThreadLocalDebugInfo.h>

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/device_memory.h"
#include "tests/support/stand_in_device.h"

// Capture and replay of the stand-in device.
namespace shoal::testing {

inline DeviceMemory& memory() { return DeviceMemory::get(); }
inline bool is_there(const at::Tensor& t) { return t.device().type() == kStandIn.type(); }

// Exists while the CPU computes for the device.
class Working {
 public:
  Working();
  ~Working();
  Working(const Working&) = delete;
  Working& operator=(const Working&) = delete;
  // Whether this thread has one.
  static bool now();

 private:
  bool before_;
  DeviceMemory::Access access_;
  c10::impl::ExcludeDispatchKeyGuard no_autograd_{
      c10::autograd_dispatch_keyset_with_ADInplaceOrView};
};

// Copies of this thread that its stream has not done yet.
void copy_later_to_host(const at::Tensor& host, const at::Tensor& numbers);
void copied_from_host(const at::Tensor& host);
void finish_copies();

// Memory that a captured operation uses.
class Operand {
 public:
  Operand(const at::Tensor& of, at::Tensor as_host);
  // Throws if the memory has been freed.
  const at::Tensor& at_replay() const;
  const at::Tensor& now() const { return tensor_; }

 private:
  at::Tensor tensor_;         // a view as CPU memory, which does not keep the memory alive
  std::uint64_t number_ = 0;  // of its block on the device
  bool pinned_ = false;
};

class Capture : public c10::DebugInfoBase {
 public:
  // The capture of the calling thread, or of the thread whose gradients it computes; null: none.
  static Capture* current();
  // Throws during a capture.
  static void refuse(const std::string& what);

  void add(std::function<void()> call) { calls_.push_back(std::move(call)); }
  // Registers memory that was allocated during the capture.
  void own(const c10::Storage& storage);
  // Call it before a host write to memory that the device would write at replay only.
  void will_write(const void* to);
  void fault(std::string what) { faults_.push_back(std::move(what)); }

  // Restores the device memory from before the capture.
  void end();
  void require_no_faults() const;
  void replay() const;

 private:
  std::vector<std::function<void()>> calls_;
  std::vector<c10::Storage> own_;
  std::set<std::uint64_t> own_numbers_;
  std::map<std::uint64_t, std::pair<std::byte*, std::vector<std::byte>>> before_;
  std::vector<std::string> faults_;
};

}  // namespace shoal::testing
