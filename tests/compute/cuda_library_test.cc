#include "src/compute/cuda_library.h"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <link.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <string>

#include "shoal/runners/device.h"

// The plugin without a GPU: it exists, is complete, and rejects invalid arguments.
namespace shoal::cuda_library_test {
namespace {

class CudaLibraryTest : public ::testing::Test {
 protected:
  void SetUp() override {
    kernels_ = cuda_kernels();
#ifdef SHOAL_HAS_CUDA_PLUGIN
    ASSERT_NE(kernels_, nullptr);
#else
    if (kernels_ == nullptr) GTEST_SKIP() << "the plugin was not built";
#endif
  }
  const CudaKernels* kernels_ = nullptr;
};

TEST_F(CudaLibraryTest, IsComplete) {
  EXPECT_EQ(kernels_->version, CudaKernels::kVersion);
  EXPECT_EQ(cuda_kernels(), kernels_);
  EXPECT_NE(kernels_->stack_frames, nullptr);
  EXPECT_NE(kernels_->choose_categorical, nullptr);
  EXPECT_NE(kernels_->gae, nullptr);
  EXPECT_NE(kernels_->vtrace, nullptr);
  EXPECT_NE(kernels_->n_step, nullptr);
  EXPECT_NE(kernels_->project, nullptr);
}

std::set<std::string> loaded_cuda_runtimes() {
  std::set<std::string> paths;
  const auto look = [](dl_phdr_info* library, std::size_t, void* to) {
    if (std::string(library->dlpi_name).find("libcudart") != std::string::npos)
      static_cast<std::set<std::string>*>(to)->insert(
          std::filesystem::canonical(library->dlpi_name).string());
    return 0;
  };
  dl_iterate_phdr(look, &paths);
  return paths;
}

TEST_F(CudaLibraryTest, SharesTheRuntimeOfLibTorch) {
  ASSERT_EQ(loaded_cuda_runtimes().size(), 1u);
  if (dlopen("libtorch_cuda.so", RTLD_NOW | RTLD_GLOBAL) == nullptr)
    GTEST_SKIP() << "LibTorch's CUDA half cannot be loaded: " << dlerror();
  EXPECT_EQ(loaded_cuda_runtimes().size(), 1u);
}

TEST_F(CudaLibraryTest, RefusesWhatMakesNoSense) {
  alignas(16) float numbers[8] = {};
  EXPECT_STREQ(kernels_->stack_frames({.out = numbers, .N = -1}, nullptr),
               "stack_frames: a size is out of range");
  EXPECT_STREQ(kernels_->stack_frames({.out = numbers, .N = 1, .stack = 2, .pixels = 1}, nullptr),
               "stack_frames: stacks without an index");
  EXPECT_STREQ(kernels_->stack_frames({.out = numbers + 1, .N = 1, .pixels = 1}, nullptr),
               "stack_frames: the output is not aligned to 16 bytes");
  EXPECT_STREQ(kernels_->stack_frames({.out = numbers + 1, .stack = 4, .pixels = 1}, nullptr),
               nullptr);  // no observations
  EXPECT_STREQ(kernels_->choose_categorical({.N = 1}, nullptr),
               "choose_categorical: a size is out of range");
  EXPECT_STREQ(kernels_->choose_categorical({.N = 1, .parts = 1}, nullptr),
               "choose_categorical: set exactly one of `action` and `bit`");
  ValuedRollout negative;
  negative.T = -1;
  EXPECT_STREQ(kernels_->gae({.rollout = negative}, nullptr), "gae: T or B is below 0");
  EXPECT_STREQ(kernels_->vtrace({.rollout = negative}, nullptr), "vtrace: T or B is below 0");
  EXPECT_STREQ(kernels_->n_step({.rollout = negative}, nullptr), "n_step: T or B is below 0");
  EXPECT_STREQ(kernels_->n_step({.rollout = {}, .n = 0}, nullptr), "n_step: n is below 1");
  EXPECT_STREQ(kernels_->project({.atoms = 1}, nullptr), "project: expected at least 2 atoms");
}

TEST_F(CudaLibraryTest, SaysThatThereIsNoGpu) {
  if (count_gpus() > 0) GTEST_SKIP() << "there is a GPU";
  ValuedRollout rollout;
  rollout.T = rollout.B = 1;
  const char* found = kernels_->gae({.rollout = rollout}, nullptr);
  ASSERT_NE(found, nullptr);
  EXPECT_NE(std::string(found), "");
}

}  // namespace
}  // namespace shoal::cuda_library_test
