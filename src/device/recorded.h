#pragma once

#include <c10/core/Device.h>

#include <functional>
#include <memory>

#include "src/device/accelerator.h"

namespace shoal {

// Work that is done again and again on the same memory: on an accelerator as a recorded graph,
// which costs the host one call instead of one for each operation; elsewhere, or if it cannot be
// recorded, as it stands.
class Recorded {
 public:
  // What cannot be recorded is tried once.
  void run(const c10::Device& device, const std::function<void()>& work);
  bool is_recorded() const { return graph_ != nullptr; }
  void forget() { *this = {}; }

 private:
  // What libraries prepare when they are first called must not be part of the recording.
  static constexpr int kFirst = 2;
  int runs_ = 0;
  bool refused_ = false;
  std::unique_ptr<WorkGraph> graph_;
};

}  // namespace shoal
