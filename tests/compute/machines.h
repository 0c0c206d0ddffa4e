#pragma once

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <ostream>
#include <string>

#include "src/compute/cuda_kernels.h"

namespace shoal {

// Kernels are tested on the CPU, and on a GPU if there is one and the plugin was built.
enum class Machine : std::uint8_t { kCpu, kGpu };

class KernelTest : public ::testing::TestWithParam<Machine> {
 protected:
  void SetUp() override;

  const CudaKernels& kernels() const { return *kernels_; }
  // Whether results must be bitwise those of the CPU; exp and log on a GPU differ.
  bool exact() const { return GetParam() == Machine::kCpu; }
  // A contiguous copy on the kernels' device; copy it back with cpu(), which synchronises.
  at::Tensor there(const at::Tensor& t) const;
  // A tensor with arbitrary content, for outputs.
  at::Tensor filled(at::IntArrayRef shape, at::ScalarType dtype = at::kFloat) const;

  // Tolerance for differences in rounding on a GPU.
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
