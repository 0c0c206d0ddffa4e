#include "nccl_plugin.h"

#include <cuda_runtime_api.h>
#include <nccl.h>

#include <array>
#include <chrono>
#include <cstring>
#include <future>
#include <string>
#include <thread>

namespace {

using Clock = std::chrono::steady_clock;

Clock::time_point in(double seconds) {
  return Clock::now() +
         std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
}

const char* told(const std::string& text) {
  thread_local std::array<char, 512> kept;
  kept[text.copy(kept.data(), kept.size() - 1)] = 0;
  return kept.data();
}

const char* told(const char* what, cudaError_t error) {
  return error == cudaSuccess ? nullptr
                              : told(std::string(what) + ": " + cudaGetErrorString(error));
}

const char* told(const char* what, ncclResult_t result, ncclComm_t communicator = nullptr) {
  if (result == ncclSuccess) return nullptr;
  std::string text = std::string(what) + ": " + ncclGetErrorString(result);
  if (const char* last = ncclGetLastError(communicator); last != nullptr && *last != 0)
    text += std::string(", ") + last;
  return told(text);
}

// Polls done() until it is true, the communicator fails, or the time is over.
template <class Done>
const char* wait(const char* what, ncclComm_t communicator, Clock::time_point end,
                 const Done& done) {
  for (int looks = 0;; ++looks) {
    ncclResult_t state = ncclSuccess;
    if (const char* error = told(what, ncclCommGetAsyncError(communicator, &state), communicator))
      return error;
    if (state != ncclSuccess && state != ncclInProgress) return told(what, state, communicator);
    bool is_done = false;
    if (const char* error = done(state, is_done)) return error;
    if (is_done) return nullptr;
    if (Clock::now() > end)
      return told(std::string(what) + ": the other ranks did not respond in time");
    constexpr int kLooks = 10'000;  // most sums have finished by then
    if (looks > kLooks) std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
}

const char* begun(const char* what, ncclComm_t communicator, Clock::time_point end) {
  return wait(what, communicator, end, [](ncclResult_t state, bool& done) -> const char* {
    done = state == ncclSuccess;
    return nullptr;
  });
}

const char* gpu(void* name) {
  int device = 0;
  if (const char* error = told("cudaGetDevice", cudaGetDevice(&device))) return error;
  cudaDeviceProp properties;
  if (const char* error =
          told("cudaGetDeviceProperties", cudaGetDeviceProperties(&properties, device)))
    return error;
  static_assert(sizeof properties.uuid == SHOAL_NCCL_GPU_SIZE);
  std::memcpy(name, &properties.uuid, SHOAL_NCCL_GPU_SIZE);
  return nullptr;
}

const char* make_id(void* id) {
  static_assert(sizeof(ncclUniqueId) == SHOAL_NCCL_ID_SIZE);
  return told("ncclGetUniqueId", ncclGetUniqueId(static_cast<ncclUniqueId*>(id)));
}

// Freeing a communicator joins NCCL's threads, which live as long as another rank is connected,
// even after an abort: forever if that rank hangs. So it runs in its own thread, which is abandoned
// if it takes too long.
void free_by(ncclResult_t (*call)(ncclComm_t), ncclComm_t communicator) {
  constexpr std::chrono::seconds kPatience{3};
  std::packaged_task<ncclResult_t()> task([=] { return call(communicator); });
  const auto result = task.get_future();
  std::thread(std::move(task)).detach();
  result.wait_for(kPatience);
}

bool have_all_left(ncclComm_t communicator, Clock::time_point end) {
  const auto result = ncclCommFinalize(communicator);
  return result == ncclSuccess ||
         (result == ncclInProgress && begun("ncclCommFinalize", communicator, end) == nullptr);
}

void close(void* communicator, double seconds) {
  auto* const all = static_cast<ncclComm_t>(communicator);
  free_by(seconds > 0 && have_all_left(all, in(seconds)) ? ncclCommDestroy : ncclCommAbort, all);
}

const char* connect(const void* id, int rank, int count, double seconds, void** communicator) {
  ncclUniqueId unique;
  std::memcpy(&unique, id, sizeof unique);
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;  // so that waits can time out
  ncclComm_t made = nullptr;
  const auto result = ncclCommInitRankConfig(&made, count, unique, rank, &config);
  const char* error = result == ncclInProgress ? begun("ncclCommInitRankConfig", made, in(seconds))
                                               : told("ncclCommInitRankConfig", result, made);
  if (error != nullptr) {
    if (made != nullptr) close(made, 0);
    return error;
  }
  *communicator = made;
  return nullptr;
}

ncclDataType_t type_of(shoal_nccl_type type) {
  switch (type) {
    case SHOAL_NCCL_FLOAT32:
      return ncclFloat32;
    case SHOAL_NCCL_FLOAT64:
      return ncclFloat64;
    case SHOAL_NCCL_INT64:
      break;
  }
  return ncclInt64;
}

const char* sum(void* communicator, void* data, size_t count, shoal_nccl_type type, void* stream,
                double seconds) {
  auto* const all = static_cast<ncclComm_t>(communicator);
  auto* const on = static_cast<cudaStream_t>(stream);
  const auto end = in(seconds);
  const auto result = ncclAllReduce(data, data, count, type_of(type), ncclSum, all, on);
  if (result != ncclSuccess && result != ncclInProgress) return told("ncclAllReduce", result, all);
  if (const char* error = begun("ncclAllReduce", all, end)) return error;
  return wait("ncclAllReduce", all, end, [on](ncclResult_t, bool& done) {
    const auto state = cudaStreamQuery(on);
    done = state == cudaSuccess;
    return done || state == cudaErrorNotReady ? nullptr : told("cudaStreamQuery", state);
  });
}

}  // namespace

extern "C" __attribute__((visibility("default"))) const shoal_nccl_api* shoal_nccl_get_api() {
  static const shoal_nccl_api kApi{.version = SHOAL_NCCL_VERSION,
                                   .gpu = gpu,
                                   .make_id = make_id,
                                   .connect = connect,
                                   .sum = sum,
                                   .close = close};
  return &kApi;
}
