#include "src/compute/captured_graph.h"

#include <c10/core/DeviceGuard.h>

#include <cstdio>
#include <exception>
#include <mutex>

#include "src/core/print.h"

namespace shoal {

void CapturedGraph::run(const c10::Device& device, const std::function<void()>& work) {
  const c10::DeviceGuard guard(device);
  auto* const on = accelerator(device);
  if (on == nullptr || refused_ || runs_ < kFirst) {
    ++runs_;
    return work();
  }
  if (!graph_) {
    try {
      graph_ = on->capture(work);
    } catch (const std::exception& e) {
      refused_ = true;
      static std::once_flag told;
      std::call_once(told, [&] {
        print_error("note: work on {} runs eagerly because it cannot be captured: {}\n",
                    device.str(), e.what());
      });
      return work();
    }
  }
  graph_->replay();
}

}  // namespace shoal
