// What Shoal asks of MPI, in C: the plugin is compiled against one implementation, the program
// against none.
#ifndef SHOAL_MPI_PLUGIN_H
#define SHOAL_MPI_PLUGIN_H

#include <stddef.h>

#define SHOAL_MPI_VERSION 1
#define SHOAL_MPI_GET_API "shoal_mpi_get_api"

enum shoal_mpi_result {
  SHOAL_MPI_OK = 0,
  SHOAL_MPI_DIFFERENT,     // the one before has another act
  SHOAL_MPI_NOT_RECEIVED,  // in time
  SHOAL_MPI_NOT_SENT,      // in time
  SHOAL_MPI_FAILED         // failure says how
};

typedef struct shoal_mpi_api {
  int version;
  // All processes call it, once, after everything is forked. Which one this is, of how many.
  enum shoal_mpi_result (*start)(int* place, int* count, char* failure, size_t failure_size);
  // Sends act (at most 64 bytes) and out to the next process, while theirs and in come from the one
  // before: the act first, and what is behind it only if it is the same. After anything but OK, out
  // and in may still be read and written until the process ends, and nothing more is to be asked.
  enum shoal_mpi_result (*pass)(const void* act, void* theirs, size_t act_size, const void* out,
                                size_t out_size, void* in, size_t in_size, double seconds,
                                char* failure, size_t failure_size);
  // All processes call it, after their last pass. Who has failed ends without it.
  void (*finish)(void);
} shoal_mpi_api;

typedef const shoal_mpi_api* (*shoal_mpi_get_api_function)(void);

#endif
