// Shoal's C interface to MPI: the plugin is compiled against one implementation, the program
// against none.
#ifndef SHOAL_MPI_PLUGIN_H
#define SHOAL_MPI_PLUGIN_H

#include <stddef.h>

#define SHOAL_MPI_VERSION 1
#define SHOAL_MPI_GET_API "shoal_mpi_get_api"

enum shoal_mpi_result {
  SHOAL_MPI_OK = 0,
  SHOAL_MPI_DIFFERENT,     // the previous process is in another collective
  SHOAL_MPI_NOT_RECEIVED,  // in time
  SHOAL_MPI_NOT_SENT,      // in time
  SHOAL_MPI_FAILED         // see `failure`
};

typedef struct shoal_mpi_api {
  int version;
  // All processes call it, once. Processes that are forked later must not call MPI. Returns this
  // process's rank and their number.
  enum shoal_mpi_result (*start)(int* place, int* count, char* failure, size_t failure_size);
  // Sends `act` (at most 64 bytes) and `out` to the next process, and receives `theirs` and `in`
  // from the previous one: first the act, then, only if both acts are equal, the data. After any
  // result but OK, `out` and `in` may be accessed until the process ends, and no further call is
  // allowed.
  enum shoal_mpi_result (*pass)(const void* act, void* theirs, size_t act_size, const void* out,
                                size_t out_size, void* in, size_t in_size, double seconds,
                                char* failure, size_t failure_size);
  // All processes call it after their last pass. A process that has failed exits without it.
  void (*finish)(void);
} shoal_mpi_api;

typedef const shoal_mpi_api* (*shoal_mpi_get_api_function)(void);

#endif
