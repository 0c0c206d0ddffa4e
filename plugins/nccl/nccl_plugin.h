// Shoal's C interface to NCCL: the plugin is compiled against NCCL, the program is not.
#ifndef SHOAL_NCCL_PLUGIN_H
#define SHOAL_NCCL_PLUGIN_H

#include <stddef.h>

#define SHOAL_NCCL_VERSION 2
#define SHOAL_NCCL_GET_API "shoal_nccl_get_api"
#define SHOAL_NCCL_ID_SIZE 128
#define SHOAL_NCCL_GPU_SIZE 16

enum shoal_nccl_type { SHOAL_NCCL_FLOAT32 = 0, SHOAL_NCCL_FLOAT64, SHOAL_NCCL_INT64 };

// Functions return NULL or an error message that is valid until the thread's next call. They apply
// to the thread's current device.
typedef struct shoal_nccl_api {
  int version;
  // Writes the current GPU's UUID.
  const char* (*gpu)(void* name);
  // Makes a rendezvous id on one rank, which sends it to the others.
  const char* (*make_id)(void* id);
  // Called by every rank, each with its own GPU. Gives up after `seconds`.
  const char* (*connect)(const void* id, int rank, int count, double seconds, void** communicator);
  // All-reduce: `data`, on the device, becomes the sum over all ranks. Returns when it is complete,
  // or after `seconds`; only a waiting host can detect that a rank is missing. After an error the
  // communicator may only be closed.
  const char* (*sum)(void* communicator, void* data, size_t count, enum shoal_nccl_type type,
                     void* stream, double seconds);
  // Waits up to `seconds` for the other ranks, which also close: they may still read this rank's
  // data. 0: aborts pending operations. Returns at most a few seconds later, even if a rank hangs,
  // for which NCCL itself would wait.
  void (*close)(void* communicator, double seconds);
} shoal_nccl_api;

typedef const shoal_nccl_api* (*shoal_nccl_get_api_function)(void);

#endif
