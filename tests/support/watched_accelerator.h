#pragma once

#include <atomic>
#include <exception>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "src/compute/accelerator.h"

namespace shoal::testing {

// A device that counts its graphs, and whose captures can be disabled. It replaces the device
// during its lifetime.
class WatchedAccelerator : public Accelerator {
 public:
  explicit WatchedAccelerator(c10::DeviceType type) : type_(type), device_(*accelerator(type)) {
    set_accelerator(type, this);
  }
  ~WatchedAccelerator() override { set_accelerator(type_, &device_); }
  WatchedAccelerator(const WatchedAccelerator&) = delete;
  WatchedAccelerator& operator=(const WatchedAccelerator&) = delete;

  const CudaKernels& kernels() const override { return device_.kernels(); }
  void* stream() const override { return device_.stream(); }
  std::shared_ptr<void> pin(std::span<std::byte> memory) override { return device_.pin(memory); }
  std::unique_ptr<DeviceGraph> capture(const std::function<void()>& work) override {
    if (!captures) throw std::runtime_error("captures are switched off");
    try {
      auto graph = std::make_unique<Counted>(device_.capture(work), replays);
      ++captured;
      return graph;
    } catch (const std::exception& e) {
      refusals.emplace_back(e.what());
      throw;
    }
  }
  std::shared_ptr<void> own_stream() override { return device_.own_stream(); }
  void wait() override { device_.wait(); }

  bool captures = true;
  int captured = 0;
  std::atomic<int> replays = 0;
  std::vector<std::string> refusals;  // why captures failed

 private:
  class Counted : public DeviceGraph {
   public:
    Counted(std::unique_ptr<DeviceGraph> graph, std::atomic<int>& replays)
        : graph_(std::move(graph)), replays_(replays) {}
    void replay() override {
      ++replays_;
      graph_->replay();
    }

   private:
    std::unique_ptr<DeviceGraph> graph_;
    std::atomic<int>& replays_;
  };

  c10::DeviceType type_;
  Accelerator& device_;
};

}  // namespace shoal::testing
