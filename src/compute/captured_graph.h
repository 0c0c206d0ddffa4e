#pragma once

#include <c10/core/Device.h>

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "src/compute/accelerator.h"

namespace shoal {

// Work that is done again and again on the same memory: on an accelerator as a recorded graph,
// which costs the host one call instead of one for each operation; elsewhere, or if it cannot be
// recorded, as it stands.
class CapturedGraph {
 public:
  // What cannot be recorded is tried once: its host's side is done, and then all of it again. So
  // that must change nothing but what the work leaves in any case.
  void run(const c10::Device& device, const std::function<void()>& work);
  bool is_captured() const { return graph_ != nullptr; }
  void forget() { *this = {}; }

 private:
  // What libraries prepare when they are first called must not be part of the recording.
  static constexpr int kFirst = 2;
  int runs_ = 0;
  bool refused_ = false;
  std::unique_ptr<WorkGraph> graph_;
};

// Where tensors lie, of which a recording knows nothing else.
class TensorAddresses {
 public:
  // Whether any of them, pairs of a name and a tensor, lies elsewhere than at the last call.
  template <class Named>
  bool have_changed(const Named& tensors) {
    std::vector<const void*> now;
    for (const auto& [name, tensor] : tensors) now.push_back(tensor.const_data_ptr());
    const bool changed = !last_.empty() && now != last_;
    last_ = std::move(now);
    return changed;
  }

 private:
  std::vector<const void*> last_;
};

}  // namespace shoal
