// Stands in for an MPI that never starts; or, with SHOAL_FAKE_MPI_STARTS, that starts as process 0
// of 2, whose neighbour makes the same calls, and never ends.
#include <unistd.h>

#include <cstdlib>
#include <cstring>

#include "mpi_plugin.h"

namespace {

[[noreturn]] void hang() {
  for (;;) pause();
}

shoal_mpi_result start(int* place, int* count, char*, size_t) {
  if (std::getenv("SHOAL_FAKE_MPI_STARTS") == nullptr) hang();
  *place = 0;
  *count = 2;
  return SHOAL_MPI_OK;
}

shoal_mpi_result pass(const void* act, void* theirs, size_t act_size, const void* out,
                      size_t out_size, void* in, size_t in_size, double, char*, size_t) {
  std::memcpy(theirs, act, act_size);
  if (in_size == out_size && in_size > 0) std::memcpy(in, out, in_size);
  return SHOAL_MPI_OK;
}

void finish() { hang(); }

const shoal_mpi_api kApi = {SHOAL_MPI_VERSION, start, pass, finish};

}  // namespace

extern "C" const shoal_mpi_api* shoal_mpi_get_api() { return &kApi; }
