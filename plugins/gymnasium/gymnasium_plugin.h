// The C interface of the Gymnasium plugin: environments written in Python, run by an interpreter in
// this process. The library behind it links CPython; the program loads it only when such an
// environment is requested, and does not depend on Python otherwise.
//
// Any thread may call; an environment is used by one thread at a time. Environments survive a fork.
// Functions that can fail return 0 or null and set `error`.
#ifndef SHOAL_PLUGINS_GYMNASIUM_GYMNASIUM_PLUGIN_H_
#define SHOAL_PLUGINS_GYMNASIUM_GYMNASIUM_PLUGIN_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { SHOAL_GYMNASIUM_VERSION = 5 };  // incremented for every incompatible change of this file

typedef struct shoal_gymnasium_env shoal_gymnasium_env;
typedef struct shoal_gymnasium_vector shoal_gymnasium_vector;  // environments stepped together

// Buffer for an error message: zero-terminated; the last `size` bytes are kept. A Python exception
// comes with its traceback.
typedef struct shoal_gymnasium_error {
  char* text;
  size_t size;
} shoal_gymnasium_error;

// Destination of an observation: a pointer per array, in the order of the description; for the mask
// one byte per action, or null if it is not needed; a pointer per info of the task.
typedef struct shoal_gymnasium_out {
  uint8_t* const* observation;
  uint8_t* mask;
  float* const* info;
} shoal_gymnasium_out;

// gymnasium.make(id, **kwargs); kwargs: a JSON object, or "". With `render`, the render mode is
// "rgb_array" unless kwargs override it. wrappers: "package.Wrapper(argument=1)", one per line, the
// innermost first; a name without a package is one of Gymnasium's. infos: the names of the infos to
// write, one per line; "a/b" is info["a"]["b"]. Each must occur in the first episode, unless
// `rare_infos`. With `vector`, id may be "module:callable" of a callable that returns a vector
// environment: callable(num_envs=N, **kwargs).
typedef struct shoal_gymnasium_task {
  const char *id, *kwargs, *wrappers, *infos;
  int render, vector, rare_infos;
} shoal_gymnasium_task;

// Destination of a step of N environments: pointers to the arrays of the first one, which those of
// the others follow. reward to waits are not written by a reset. final_observation and final_mask
// are written for environments whose episode ended. waits: 1 if the next episode has not begun, so
// that there is no observation; null if the description has `waits 0`.
typedef struct shoal_gymnasium_vector_out {
  uint8_t* const* observation;
  uint8_t* mask;
  float* const* info;
  float* reward;
  uint8_t *terminated, *truncated;
  uint8_t* const* final_observation;
  uint8_t *final_mask, *waits;
} shoal_gymnasium_vector_out;

typedef struct shoal_gymnasium_step {
  double reward;
  int terminated, truncated;
} shoal_gymnasium_step;

typedef struct shoal_gymnasium_api {
  int version;

  // Starts the process's interpreter. `python`: path of the program that finds the packages, of the
  // same minor version as the library. Later calls do nothing.
  int (*start)(const char* python, shoal_gymnasium_error error);

  // Writes the names that make() accepts, one per line, as many as fit into `size` bytes with a
  // terminating zero; returns 1, or 0 on failure.
  int (*ids)(char* text, size_t size, shoal_gymnasium_error error);

  shoal_gymnasium_env* (*make)(const shoal_gymnasium_task* task, shoal_gymnasium_error error);
  void (*destroy)(shoal_gymnasium_env*);

  // Describes the environment as lines of words:
  //   observation DTYPE LOW HIGH RANK SIZE... NAME
  //   action discrete N NAME         action multi-discrete COUNT N... NAME
  //   action box COUNT LOW HIGH NAME action multi-binary COUNT NAME
  //   fps NUMBER                     render 0|1
  //   notice SENTENCE (about a field that is left out)
  // Valid until the environment is destroyed.
  const char* (*description)(shoal_gymnasium_env*);
  // Resets the environment to find out whether it provides info["action_mask"]: 0 or 1; -1 on
  // failure.
  int (*has_mask)(shoal_gymnasium_env*, shoal_gymnasium_error error);

  int (*reset)(shoal_gymnasium_env*, const uint64_t* seed, shoal_gymnasium_out out,
               shoal_gymnasium_error error);
  // action: a pointer per action, in the order of the description; int64, float32 or bytes of 0/1.
  int (*step)(shoal_gymnasium_env*, const uint8_t* const* action, shoal_gymnasium_out out,
              shoal_gymnasium_step* result, shoal_gymnasium_error error);

  // The complete state; size 0: not supported. Valid until the next call.
  const uint8_t* (*save)(shoal_gymnasium_env*, size_t* size);
  int (*load)(shoal_gymnasium_env*, const uint8_t* bytes, size_t size, shoal_gymnasium_error error);

  // A rendered frame [height, width, 3], valid until the next call.
  const uint8_t* (*picture)(shoal_gymnasium_env*, int* height, int* width,
                            shoal_gymnasium_error error);

  // Whether the task makes a vector environment: it says so, or its id names nothing else. -1 on
  // failure.
  int (*is_vector)(const shoal_gymnasium_task* task, shoal_gymnasium_error error);
  // gymnasium.make_vec() of a vector_entry_point, a callable, or the agents of PettingZoo's
  // parallel environments, "pettingzoo:module". envs 0: as few as there can be.
  shoal_gymnasium_vector* (*make_vector)(const shoal_gymnasium_task* task, size_t envs,
                                         shoal_gymnasium_error error);
  void (*destroy_vector)(shoal_gymnasium_vector*);
  // The lines of one environment, and
  //   batch MULTIPLE (of environments)  waits 0|1
  const char* (*vector_description)(shoal_gymnasium_vector*);
  int (*vector_has_mask)(shoal_gymnasium_vector*, shoal_gymnasium_error error);
  // seeds: one per environment; a vector environment that accepts one only gets the first. Null:
  // the random generators continue.
  int (*vector_reset)(shoal_gymnasium_vector*, const uint64_t* seeds,
                      shoal_gymnasium_vector_out out, shoal_gymnasium_error error);
  int (*vector_step)(shoal_gymnasium_vector*, const uint8_t* const* action,
                     shoal_gymnasium_vector_out out, shoal_gymnasium_error error);
} shoal_gymnasium_api;

// The exported symbol of the library, and its type for dlsym.
typedef const shoal_gymnasium_api* (*shoal_gymnasium_get_api_function)(void);
#define SHOAL_GYMNASIUM_GET_API "shoal_gymnasium_get_api"

#ifdef __cplusplus
}  // extern "C"
#endif

#endif  // SHOAL_PLUGINS_GYMNASIUM_GYMNASIUM_PLUGIN_H_
