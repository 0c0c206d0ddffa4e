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

// How the stand-in device captures and replays.
namespace shoal::testing {

inline DeviceMemory& memory() { return DeviceMemory::get(); }
inline bool is_there(const at::Tensor& t) { return t.device().type() == kStandIn.type(); }

// While the CPU computes for the device.
class Working {
 public:
  Working();
  ~Working();
  Working(const Working&) = delete;
  Working& operator=(const Working&) = delete;
  // Whether this thread does.
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
  // Throws unless it is there still.
  const at::Tensor& at_replay() const;
  const at::Tensor& now() const { return tensor_; }

 private:
  at::Tensor tensor_;         // a view of it as the CPU's, which does not keep it alive
  std::uint64_t number_ = 0;  // of its block on the device
  bool pinned_ = false;
};

class Capture : public c10::DebugInfoBase {
 public:
  // That of the calling thread, or of the one whose gradients it computes; null: none.
  static Capture* current();
  // Throws while there is one.
  static void refuse(const std::string& what);

  void add(std::function<void()> call) { calls_.push_back(std::move(call)); }
  // Memory that was allocated during the capture.
  void own(const c10::Storage& storage);
  // Before something is written there, which the device would do at a replay only.
  void will_write(const void* to);
  void fault(std::string what) { faults_.push_back(std::move(what)); }

  // Leaves the device's memory as it was before.
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
