#include "tests/support/fake_accelerator.h"

#include <stdexcept>

namespace shoal::testing {
namespace {

template <class Pixel>
void stack_all(const StackedFrames& in) {
  for (std::int64_t n = 0; n < in.N; ++n) {
    for (std::int64_t p = 0; p < in.pixels; ++p) {
      if (is_four_grey_frames(in))
        write_pixel_of_four<Pixel>(in, n, p);
      else
        write_pixel<Pixel>(in, n, p);
    }
  }
}

const char* stack_frames(const StackedFrames& in, void*) {
  in.type == PixelType::kFloat32 ? stack_all<float>(in) : stack_all<Bfloat16>(in);
  return nullptr;
}

const char* choose(const CategoricalRows& in, void*) {
  for (std::int64_t row = 0; row < in.N; ++row) choose_row(in, row);
  return nullptr;
}

const char* gae(const Gae& in, void*) {
  for (std::int64_t b = 0; b < in.rollout.B; ++b) gae_column(in, b);
  return nullptr;
}

const char* vtrace_all(const VTraceColumns& in, void*) {
  for (std::int64_t b = 0; b < in.rollout.B; ++b) vtrace_column(in, b);
  return nullptr;
}

const char* n_step(const NStep& in, void*) {
  for (std::int64_t t = 0; t < in.rollout.T; ++t)
    for (std::int64_t b = 0; b < in.rollout.B; ++b) n_step_cell(in, t, b);
  return nullptr;
}

const char* project_all(const Projection& in, void*) {
  for (std::int64_t n = 0; n < in.N; ++n)
    for (std::int64_t j = 0; j < in.atoms; ++j) project_atom(in, n, j);
  return nullptr;
}

const char* fill_noise(const NoiseRows& in, void*) {
  for (std::int64_t row = 0; row < in.N; ++row)
    for (std::int64_t j = 0; j < in.numbers; ++j) noise_cell(in, row, j);
  return nullptr;
}

}  // namespace

const CudaKernels& kernels_on_the_cpu() {
  static constexpr CudaKernels kKernels{.version = CudaKernels::kVersion,
                                        .stack_frames = stack_frames,
                                        .choose_categorical = choose,
                                        .gae = gae,
                                        .vtrace = vtrace_all,
                                        .n_step = n_step,
                                        .project = project_all,
                                        .fill_noise = fill_noise,
                                        .accelerator = nullptr};
  return kKernels;
}

namespace {

class Again : public DeviceGraph {
 public:
  Again(std::function<void()> work, std::atomic<int>& replays)
      : work_(std::move(work)), replays_(replays) {}
  void replay() override {
    ++replays_;
    work_();
  }

 private:
  std::function<void()> work_;
  std::atomic<int>& replays_;
};

}  // namespace

std::shared_ptr<void> FakeAccelerator::pin(std::span<std::byte> memory) {
  ++pins;
  return {memory.data(), [this](void*) { --pins; }};
}

std::unique_ptr<DeviceGraph> FakeAccelerator::capture(const std::function<void()>& work) {
  if (refuses) throw std::runtime_error("it waits for the device");
  ++captures;
  return std::make_unique<Again>(work, replays);
}

}  // namespace shoal::testing
