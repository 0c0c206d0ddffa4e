// The C interface of the Gymnasium plugin: environments written in Python, run by an interpreter in
// this process. The library behind it links CPython; a program that loads it only when such an
// environment is asked for does not depend on Python.
//
// Any thread may call; an environment is used by one at a time. What is made in a process lives on
// in its forked children. Functions that can fail return 0 or null and say why in `error`.
#ifndef SHOAL_PLUGINS_GYMNASIUM_GYMNASIUM_PLUGIN_H_
#define SHOAL_PLUGINS_GYMNASIUM_GYMNASIUM_PLUGIN_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { SHOAL_GYMNASIUM_VERSION = 2 };  // changes with every incompatible change of this file

typedef struct shoal_gymnasium_env shoal_gymnasium_env;

// Where a function reports what went wrong: a zero-terminated text, of which the last `size` bytes
// are kept. A Python exception comes with its traceback.
typedef struct shoal_gymnasium_error {
  char* text;
  size_t size;
} shoal_gymnasium_error;

// Where an observation is written: a pointer per array, in the order of the description; one byte
// per action for the mask, or null if it is not wanted.
typedef struct shoal_gymnasium_out {
  uint8_t* const* observation;
  uint8_t* mask;
} shoal_gymnasium_out;

typedef struct shoal_gymnasium_step {
  double reward;
  int terminated, truncated;
} shoal_gymnasium_step;

typedef struct shoal_gymnasium_api {
  int version;

  // Starts the interpreter, once in a process; `python`: the path of the program that finds the
  // packages, of the same minor version as the library. Further calls do nothing.
  int (*start)(const char* python, shoal_gymnasium_error error);

  // The names that make() takes, one a line, as far as they fit into `size` bytes with a zero
  // behind them: 1; 0 on failure.
  int (*ids)(char* text, size_t size, shoal_gymnasium_error error);

  // gymnasium.make(id, **kwargs); kwargs: a JSON object, or "". With `render`, its render mode is
  // "rgb_array", unless kwargs say otherwise.
  shoal_gymnasium_env* (*make)(const char* id, const char* kwargs, int render,
                               shoal_gymnasium_error error);
  void (*destroy)(shoal_gymnasium_env*);

  // What the environment is, as lines of words:
  //   observation DTYPE LOW HIGH RANK SIZE... NAME
  //   action discrete N NAME         action multi-discrete COUNT N... NAME
  //   action box COUNT LOW HIGH NAME action multi-binary COUNT NAME
  //   fps NUMBER                     render 0|1
  // Valid until the environment is destroyed.
  const char* (*description)(shoal_gymnasium_env*);
  // Resets it to see whether it says which actions are legal (info["action_mask"]): 0 or 1; -1 on
  // failure.
  int (*has_mask)(shoal_gymnasium_env*, shoal_gymnasium_error error);

  int (*reset)(shoal_gymnasium_env*, const uint64_t* seed, shoal_gymnasium_out out,
               shoal_gymnasium_error error);
  // action: a pointer per action, in the order of the description; int64, float32 or bytes of 0/1.
  int (*step)(shoal_gymnasium_env*, const uint8_t* const* action, shoal_gymnasium_out out,
              shoal_gymnasium_step* result, shoal_gymnasium_error error);

  // The complete state; size 0: not offered. Valid until the next call.
  const uint8_t* (*save)(shoal_gymnasium_env*, size_t* size);
  int (*load)(shoal_gymnasium_env*, const uint8_t* bytes, size_t size, shoal_gymnasium_error error);

  // A picture [height, width, 3], valid until the next call.
  const uint8_t* (*picture)(shoal_gymnasium_env*, int* height, int* width,
                            shoal_gymnasium_error error);
} shoal_gymnasium_api;

// The only symbol of the library. Its type, for dlsym.
typedef const shoal_gymnasium_api* (*shoal_gymnasium_get_api_function)(void);
#define SHOAL_GYMNASIUM_GET_API "shoal_gymnasium_get_api"

#ifdef __cplusplus
}  // extern "C"
#endif

#endif  // SHOAL_PLUGINS_GYMNASIUM_GYMNASIUM_PLUGIN_H_
