#pragma once

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <ostream>
#include <string>

#include "src/compute/cuda_kernels.h"

namespace shoal {

// Tests of kernels run on the CPU, and on a GPU where there are one and the plugin.
enum class Machine : std::uint8_t { kCpu, kGpu };

class KernelTest : public ::testing::TestWithParam<Machine> {
 protected:
  void SetUp() override;

  const CudaKernels& kernels() const { return *kernels_; }
  // Where what the CPU does, too, has the CPU's bits: not exp and log of a GPU.
  bool exact() const { return GetParam() == Machine::kCpu; }
  // A contiguous copy where the kernels run; copy it back with cpu(), which waits for them.
  at::Tensor there(const at::Tensor& t) const;
  // With an output that holds something else before.
  at::Tensor filled(at::IntArrayRef shape, at::ScalarType dtype = at::kFloat) const;

  // What a GPU rounds otherwise may differ by so much.
  void expect_same(const at::Tensor& found, const at::Tensor& wanted, const std::string& what,
                   double tolerance = 1e-5) const;

 private:
  const CudaKernels* kernels_ = nullptr;
};

inline std::ostream& operator<<(std::ostream& out, Machine machine) {
  return out << (machine == Machine::kCpu ? "Cpu" : "Gpu");
}

#define SHOAL_ON_BOTH_MACHINES(test)                                                  \
  INSTANTIATE_TEST_SUITE_P(On, test, ::testing::Values(Machine::kCpu, Machine::kGpu), \
                           ::testing::PrintToStringParamName())

}  // namespace shoal
