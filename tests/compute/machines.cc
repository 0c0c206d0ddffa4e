#include "tests/compute/machines.h"

#include "shoal/runners/device.h"
#include "src/compute/cuda_library.h"
#include "tests/support/fake_accelerator.h"

namespace shoal {

void KernelTest::SetUp() {
  if (GetParam() == Machine::kCpu) {
    kernels_ = &testing::kernels_on_the_cpu();
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
