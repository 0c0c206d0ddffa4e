#include <dlfcn.h>
#include <fmt/ranges.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>

#include "shoal/core/error.h"
#include "shoal/ipc/worker_group.h"
#include "src/ipc/child_process.h"

namespace shoal {

namespace {

// Two functions of the CUDA driver, declared here because this library is built without CUDA.
using GetCount = int (*)(int* count);
using GetState = int (*)(int device, unsigned* flags, int* active);
constexpr int kSuccess = 0;

// Whether any CUDA device has a context in this process. Loads nothing: if the driver is not
// loaded, there is no context. An uninitialised driver returns an error, which also means no
// context.
bool has_cuda_context() {
  const auto close = [](void* library) { dlclose(library); };
  const std::unique_ptr<void, decltype(close)> driver(
      dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD), close);
  if (!driver) return false;
  const auto get_count = reinterpret_cast<GetCount>(dlsym(driver.get(), "cuDeviceGetCount"));
  const auto get_state =
      reinterpret_cast<GetState>(dlsym(driver.get(), "cuDevicePrimaryCtxGetState"));
  int count = 0;
  if (!get_count || !get_state || get_count(&count) != kSuccess) return false;
  for (int device = 0; device < count; ++device) {
    unsigned flags = 0;
    int active = 0;
    if (get_state(device, &flags, &active) == kSuccess && active != 0) return true;
  }
  return false;
}

}  // namespace

std::string obstacle_to_fork() {
  if (gettid() != getpid())
    return fmt::format(
        "workers are being forked from thread {}, which is not the main thread of process {}; make "
        "samplers in the main thread: workers die with the thread that forked them",
        gettid(), getpid());
  if (has_cuda_context())
    return "workers are being forked in a process that has a CUDA context, which does not survive "
           "a fork; make samplers before anything is moved to a CUDA device";
  return "";
}

void prepare_to_fork() {
  const auto obstacle = obstacle_to_fork();
  require(obstacle.empty(), "{}", obstacle);
  if (openmp_owner != getpid()) return;
  constexpr int kHard = 2;  // omp_pause_hard
  using Pause = int (*)(int);
  if (auto* pause = reinterpret_cast<Pause>(dlsym(RTLD_DEFAULT, "omp_pause_resource_all")))
    pause(kHard);
}

std::vector<int> allowed_cores() {
  for (int most = 1024;; most *= 2) {
    const auto free_set = [](cpu_set_t* set) { CPU_FREE(set); };
    const std::unique_ptr<cpu_set_t, decltype(free_set)> set(CPU_ALLOC(most), free_set);
    const auto bytes = CPU_ALLOC_SIZE(most);
    if (sched_getaffinity(0, bytes, set.get()) != 0) {
      // EINVAL: the kernel's mask is larger.
      require(errno == EINVAL && most < 1 << 20,
              "cannot read the affinity mask of this process: {}", std::strerror(errno));
      continue;
    }
    std::vector<int> cores;
    for (int core = 0; core < most; ++core)
      if (CPU_ISSET_S(core, bytes, set.get())) cores.push_back(core);
    return cores;
  }
}

void use_cores(const std::vector<int>& cores) {
  require(!cores.empty(), "an empty list of cores; expected at least 1");
  const int most = *std::ranges::max_element(cores) + 1;
  auto* set = CPU_ALLOC(most);
  const auto bytes = CPU_ALLOC_SIZE(most);
  CPU_ZERO_S(bytes, set);
  for (const int core : cores) CPU_SET_S(core, bytes, set);
  const int status = ::sched_setaffinity(0, bytes, set);
  const int error = errno;
  CPU_FREE(set);
  require(status == 0, "cannot use the cores {}: {}", fmt::join(cores, ","), std::strerror(error));
}

}  // namespace shoal
