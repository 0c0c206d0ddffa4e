#pragma once

#include <c10/core/Device.h>

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "src/compute/accelerator.h"

namespace shoal {

// Work that is repeated on the same memory. On an accelerator it becomes a captured graph, which
// costs the host one call instead of one per operation; elsewhere, or if it cannot be captured, it
// runs eagerly.
class CapturedGraph {
 public:
  // If capture fails, the work runs eagerly; its host code has then run twice. So the host code
  // must be idempotent.
  void run(const c10::Device& device, const std::function<void()>& work);
  bool is_captured() const { return graph_ != nullptr; }
  void forget() { *this = {}; }

 private:
  // The first calls run eagerly, so that the capture does not contain libraries' lazy
  // initialisation.
  static constexpr int kFirst = 2;
  int runs_ = 0;
  bool refused_ = false;
  std::unique_ptr<DeviceGraph> graph_;
};

// The addresses of tensors, on which a captured graph depends.
class TensorAddresses {
 public:
  // Whether any address differs from the last call. tensors: pairs of a name and a tensor.
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
