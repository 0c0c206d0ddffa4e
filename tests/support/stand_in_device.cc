#include "tests/support/stand_in_device.h"

#include <stdexcept>
#include <utility>

#include "tests/support/fake_accelerator.h"
#include "tests/support/stand_in_backend.h"
#include "tests/support/stand_in_capture.h"

namespace shoal::testing {
namespace {

// Launches the function `kernel` of kernels_on_the_cpu().
template <class In>
const char* launch(const char* (*kernel)(const In&, void*), const In& in,
                   std::initializer_list<const void*> reads,
                   std::initializer_list<const void*> writes) {
  auto* const capture = Capture::current();
  std::vector<DeviceMemory::Block> blocks;
  for (const auto* all : {&reads, &writes}) {
    for (const auto* p : *all) {
      if (p == nullptr) continue;
      const auto block = memory().find(p);
      if (!block) return "an illegal memory access: it is not the device's";
      blocks.push_back(*block);
    }
  }
  const DeviceMemory::Access access;
  if (capture != nullptr)
    for (const auto* p : writes) capture->will_write(p);
  const auto* error = kernel(in, nullptr);
  if (capture == nullptr) return error;
  capture->add([kernel, in, blocks] {
    for (const auto& block : blocks) {
      const auto now = memory().find(block.begin);
      if (!now || now->number != block.number)
        throw std::runtime_error("a captured kernel uses memory that has been freed since");
    }
    kernel(in, nullptr);
  });
  return error;
}

const CudaKernels& cpu() { return kernels_on_the_cpu(); }

}  // namespace

const CudaKernels& StandInDevice::kernels() const {
  static constexpr CudaKernels kKernels{
      .version = CudaKernels::kVersion,
      .stack_frames =
          [](const StackedFrames& in, void*) {
            return launch(cpu().stack_frames, in, {in.frame, in.index}, {in.out});
          },
      .choose_categorical =
          [](const CategoricalRows& in, void*) {
            return launch(cpu().choose_categorical, in,
                          {in.logits, in.choices, in.mask, in.env_tick},
                          {in.action, in.bit, in.log_prob});
          },
      .gae =
          [](const Gae& in, void*) {
            const auto& w = in.rollout;
            return launch(cpu().gae, in,
                          {w.reward, w.terminated, w.truncated, w.valid, w.value, w.final_value,
                           w.bootstrap_value},
                          {in.advantage, in.target});
          },
      .vtrace =
          [](const VTraceColumns& in, void*) {
            const auto& w = in.rollout;
            return launch(cpu().vtrace, in,
                          {w.reward, w.terminated, w.truncated, w.valid, w.value, w.final_value,
                           w.bootstrap_value, in.log_ratio},
                          {in.target, in.advantage, in.rho});
          },
      .n_step =
          [](const NStep& in, void*) {
            const auto& w = in.rollout;
            return launch(cpu().n_step, in,
                          {w.reward, w.terminated, w.truncated, w.valid, w.value, w.final_value,
                           w.bootstrap_value},
                          {in.reward, in.discount, in.steps, in.target});
          },
      .project =
          [](const Projection& in, void*) {
            return launch(cpu().project, in, {in.probability, in.reward, in.discount, in.support},
                          {in.out});
          },
      .fill_noise = [](const NoiseRows& in,
                       void*) { return launch(cpu().fill_noise, in, {in.env_tick}, {in.out}); },
      .accelerator = nullptr};
  return kKernels;
}

namespace {

class Replayed : public DeviceGraph {
 public:
  explicit Replayed(std::shared_ptr<Capture> capture) : capture_(std::move(capture)) {}
  void replay() override { capture_->replay(); }

 private:
  std::shared_ptr<Capture> capture_;
};

}  // namespace

StandInDevice::StandInDevice() {
  start_backend();
  set_accelerator(kStandIn.type(), this);
}

StandInDevice::~StandInDevice() { set_accelerator(kStandIn.type(), nullptr); }

std::shared_ptr<void> StandInDevice::pin(std::span<std::byte> bytes) {
  Capture::refuse("pinning memory");
  memory().pin(bytes);
  ++pins;
  return {bytes.data(), [this](void* begin) {
            memory().unpin(begin);
            --pins;
          }};
}

std::unique_ptr<DeviceGraph> StandInDevice::capture(const std::function<void()>& work) {
  Capture::refuse("another capture");
  auto capture = std::make_shared<Capture>();
  {
    const c10::DebugInfoGuard guard(c10::DebugInfoKind::TEST_INFO, capture);
    try {
      work();
    } catch (...) {
      capture->end();
      throw;
    }
  }
  capture->end();
  capture->require_no_faults();
  return std::make_unique<Replayed>(std::move(capture));
}

std::shared_ptr<void> StandInDevice::own_stream() {
  return {this, [](void*) { finish_copies(); }};
}

void StandInDevice::wait() {
  Capture::refuse("waiting for the device");
  finish_copies();
}

}  // namespace shoal::testing
