#include "shoal/runners/device.h"

#include <ATen/Context.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string_view>

#include "shoal/core/error.h"
#include "shoal/core/text.h"
#include "src/compute/accelerator.h"
#include "src/compute/cuda_library.h"

namespace shoal {
namespace {

// The driver reports the number after its initialization only.
int ask_driver() {
  void* const driver = dlopen("libcuda.so.1", RTLD_LAZY);
  if (driver == nullptr) return 0;
  const auto init = reinterpret_cast<int (*)(unsigned)>(dlsym(driver, "cuInit"));
  const auto get_count = reinterpret_cast<int (*)(int*)>(dlsym(driver, "cuDeviceGetCount"));
  int count = 0;
  const bool known =
      init != nullptr && get_count != nullptr && init(0) == 0 && get_count(&count) == 0;
  return known ? count : 0;
}

}  // namespace

int count_gpus() {
  constexpr int kMost = 255;  // an exit status has 8 bits
  const pid_t child = fork();
  require(child >= 0, "cannot fork a process to count the GPUs: {}", std::strerror(errno));
  if (child == 0) _exit(std::min(ask_driver(), kMost));
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 0;
}

at::Device parse_device(const std::string& text) {
  if (text == "cpu") return at::kCPU;
  const std::string_view number =
      std::string_view(text).substr(text.starts_with("cuda:") ? 5 : text.size());
  const bool indexed = !number.empty() && number.size() <= 2 &&
                       number.find_first_not_of("0123456789") == number.npos;
  require(text == "cuda" || indexed, "device: found '{}', expected cpu, cuda or cuda:N",
          one_line(text));
  return {at::kCUDA, static_cast<at::DeviceIndex>(indexed ? std::stoi(std::string(number)) : 0)};
}

void open_device(const at::Device& device) {
  if (!device.is_cuda()) return;
  // Static initialisers of the library register the CUDA operations; it stays loaded.
  if (dlopen("libtorch_cuda.so", RTLD_NOW | RTLD_GLOBAL) == nullptr)
    throw Error("device {}: cannot load LibTorch's CUDA library: {}", device.str(), dlerror());
  // NOLINTNEXTLINE(bugprone-signed-char-misuse): the value is never negative
  const int gpus = at::detail::getCUDAHooks().deviceCount();
  require(gpus > 0, "device {}: no GPU was found; use --device cpu", device.str());
  require(device.index() < gpus, "device {}: expected an index below {}, the number of GPUs",
          device.str(), gpus);
  // Kernels start on the thread's current device, not on the device of their tensors.
  c10::impl::getDeviceGuardImpl(at::kCUDA)->setDevice(device);
  if (const auto* kernels = cuda_kernels()) set_accelerator(at::kCUDA, kernels->accelerator());
}

void move_to_device(Agent& agent, const std::string& device) {
  const auto parsed = parse_device(device);
  open_device(parsed);
  agent.to(parsed);
}

}  // namespace shoal
