#include "mpi_plugin.h"

#include <mpi.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <thread>

namespace {

using Clock = std::chrono::steady_clock;

enum Tag { kAct, kData };

// MPI counts are int.
constexpr std::size_t kMost = std::size_t{1} << 30;
// Polling is fastest as long as no other process needs the core.
constexpr int kLooks = 2000;
constexpr std::chrono::microseconds kPause{20};

shoal_mpi_result fail(int status, char* failure, std::size_t size) {
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  MPI_Error_string(status, text.data(), &length);
  std::snprintf(failure, size, "%s", text.data());
  return SHOAL_MPI_FAILED;
}

shoal_mpi_result start(int* place, int* count, char* failure, std::size_t size) {
  // Gradients are summed in a thread of their own; MPI calls are serialised.
  int provided = 0;
  int status = MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &provided);
  if (status == MPI_SUCCESS && provided < MPI_THREAD_SERIALIZED) {
    std::snprintf(failure, size, "it does not support MPI_THREAD_SERIALIZED");
    return SHOAL_MPI_FAILED;
  }
  if (status == MPI_SUCCESS) status = MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  if (status == MPI_SUCCESS) status = MPI_Comm_rank(MPI_COMM_WORLD, place);
  if (status == MPI_SUCCESS) status = MPI_Comm_size(MPI_COMM_WORLD, count);
  return status == MPI_SUCCESS ? SHOAL_MPI_OK : fail(status, failure, size);
}

// The waits of one pass.
struct Pass {
  Clock::time_point deadline;
  char* failure;
  std::size_t failure_size;
  int status = MPI_SUCCESS;

  // False after the deadline or on failure.
  bool wait(MPI_Request& request) {
    for (int looks = 0;; ++looks) {
      int there = 0;
      status = MPI_Test(&request, &there, MPI_STATUS_IGNORE);
      if (status != MPI_SUCCESS) return false;
      if (there != 0) return true;
      if (looks < kLooks) continue;
      if (Clock::now() >= deadline) return false;
      std::this_thread::sleep_for(kPause);
    }
  }
  shoal_mpi_result result(shoal_mpi_result if_late) const {
    return status == MPI_SUCCESS ? if_late : fail(status, failure, failure_size);
  }
};

// Buffers of the headers; after a failed pass, MPI still uses them.
struct Acts {
  std::array<char, 64> own, theirs;
};
Acts acts;

shoal_mpi_result pass(const void* act, void* theirs, std::size_t act_size, const void* out,
                      std::size_t out_size, void* in, std::size_t in_size, double seconds,
                      char* failure, std::size_t failure_size) {
  int place = 0, count = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &place);
  MPI_Comm_size(MPI_COMM_WORLD, &count);
  const int next = (place + 1) % count, before = (place + count - 1) % count;
  const auto time =
      std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
  Pass one{Clock::now() + time, failure, failure_size};

  const auto send = [&](const void* data, std::size_t n, Tag tag, MPI_Request& request) {
    one.status =
        MPI_Isend(data, static_cast<int>(n), MPI_BYTE, next, tag, MPI_COMM_WORLD, &request);
    return one.status == MPI_SUCCESS;
  };
  const auto receive = [&](void* data, std::size_t n, Tag tag, MPI_Request& request) {
    one.status =
        MPI_Irecv(data, static_cast<int>(n), MPI_BYTE, before, tag, MPI_COMM_WORLD, &request);
    return one.status == MPI_SUCCESS;
  };
  MPI_Request sent = MPI_REQUEST_NULL, received = MPI_REQUEST_NULL;
  std::memcpy(acts.own.data(), act, act_size);
  if (!send(acts.own.data(), act_size, kAct, sent) ||
      !receive(acts.theirs.data(), act_size, kAct, received) || !one.wait(received))
    return one.result(SHOAL_MPI_NOT_RECEIVED);
  std::memcpy(theirs, acts.theirs.data(), act_size);
  if (std::memcmp(act, theirs, act_size) != 0) return SHOAL_MPI_DIFFERENT;
  if (!one.wait(sent)) return one.result(SHOAL_MPI_NOT_SENT);
  for (std::size_t done = 0; done < std::max(out_size, in_size); done += kMost) {
    const auto rest = [&](std::size_t size) {
      return std::min(kMost, size - std::min(done, size));
    };
    const bool sends = rest(out_size) > 0, receives = rest(in_size) > 0;
    if (sends && !send(static_cast<const char*>(out) + done, rest(out_size), kData, sent))
      return one.result(SHOAL_MPI_NOT_SENT);
    if (receives && (!receive(static_cast<char*>(in) + done, rest(in_size), kData, received) ||
                     !one.wait(received)))
      return one.result(SHOAL_MPI_NOT_RECEIVED);
    if (sends && !one.wait(sent)) return one.result(SHOAL_MPI_NOT_SENT);
  }
  return SHOAL_MPI_OK;
}

void finish() { MPI_Finalize(); }

const shoal_mpi_api kApi = {SHOAL_MPI_VERSION, start, pass, finish};

}  // namespace

extern "C" __attribute__((visibility("default"))) const shoal_mpi_api* shoal_mpi_get_api() {
  return &kApi;
}
