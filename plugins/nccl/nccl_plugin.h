// What Shoal asks of NCCL, in C: the plugin is compiled against it, the program is not.
#ifndef SHOAL_NCCL_PLUGIN_H
#define SHOAL_NCCL_PLUGIN_H

#include <stddef.h>

#define SHOAL_NCCL_VERSION 2
#define SHOAL_NCCL_GET_API "shoal_nccl_get_api"
#define SHOAL_NCCL_ID_SIZE 128
#define SHOAL_NCCL_GPU_SIZE 16

enum shoal_nccl_type { SHOAL_NCCL_FLOAT32 = 0, SHOAL_NCCL_FLOAT64, SHOAL_NCCL_INT64 };

// Functions return NULL, or what went wrong: a text that stays until the thread's next call. All
// are of the thread's current device.
typedef struct shoal_nccl_api {
  int version;
  // Of the present GPU, wherever it is.
  const char* (*gpu)(void* name);
  // A name under which ranks meet: one of them makes it, and tells the others.
  const char* (*make_id)(void* id);
  // Every rank, with a GPU of its own. Gives up after so long.
  const char* (*connect)(const void* id, int rank, int count, double seconds, void** communicator);
  // data, on the device, becomes the sum of all ranks' ones. Returns when it has, or after so long:
  // only while the host waits can it see that a rank does not come. Nothing more is to be asked of
  // the communicator after an error, but to close it.
  const char* (*sum)(void* communicator, void* data, size_t count, enum shoal_nccl_type type,
                     void* stream, double seconds);
  // Waits so long for the others, which close it as well: they may still read what this one holds.
  // 0: ends whatever is under way. Returns a few seconds later at most, even if a rank hangs, for
  // which NCCL itself would wait.
  void (*close)(void* communicator, double seconds);
} shoal_nccl_api;

typedef const shoal_nccl_api* (*shoal_nccl_get_api_function)(void);

#endif
