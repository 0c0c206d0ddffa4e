#include "tests/kernels/machines.h"

#include "shoal/runners/device.h"
#include "src/kernels/cuda_library.h"

namespace shoal {
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
  for (std::int64_t b = 0; b < in.window.B; ++b) gae_column(in, b);
  return nullptr;
}

const char* vtrace_all(const VTraceColumns& in, void*) {
  for (std::int64_t b = 0; b < in.window.B; ++b) vtrace_column(in, b);
  return nullptr;
}

const char* n_step(const NStep& in, void*) {
  for (std::int64_t t = 0; t < in.window.T; ++t)
    for (std::int64_t b = 0; b < in.window.B; ++b) n_step_cell(in, t, b);
  return nullptr;
}

const char* project_all(const Projection& in, void*) {
  for (std::int64_t n = 0; n < in.N; ++n)
    for (std::int64_t j = 0; j < in.atoms; ++j) project_atom(in, n, j);
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
                                        .project = project_all};
  return kKernels;
}

void KernelTest::SetUp() {
  if (GetParam() == Machine::kCpu) {
    kernels_ = &kernels_on_the_cpu();
    return;
  }
  static const int kGpus = count_gpus();
  if (kGpus == 0) GTEST_SKIP() << "there is no GPU";
  open_device({at::kCUDA, 0});
  kernels_ = cuda_kernels();
  if (kernels_ == nullptr) GTEST_SKIP() << "the plugin was not built";
}

at::Tensor KernelTest::there(const at::Tensor& t) const {
  const auto device = GetParam() == Machine::kCpu ? at::Device(at::kCPU) : at::Device(at::kCUDA, 0);
  return t.to(device).contiguous();
}

at::Tensor KernelTest::filled(at::IntArrayRef shape, at::ScalarType dtype) const {
  return there(at::full(shape, dtype == at::kBool ? 1 : 77, dtype));
}

void KernelTest::expect_same(const at::Tensor& found, const at::Tensor& wanted,
                             const std::string& what, double tolerance) const {
  const auto here = found.cpu();
  ASSERT_EQ(here.sizes(), wanted.sizes()) << what;
  if (exact())
    EXPECT_TRUE(at::equal(here, wanted)) << what;
  else
    EXPECT_TRUE(at::allclose(here, wanted, tolerance, tolerance)) << what;
}

}  // namespace shoal
