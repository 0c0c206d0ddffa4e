// SPDX-License-Identifier: MIT
//
// The C interface of the Atari plugin: an Atari 2600 console with one ROM. The library behind it
// contains ALE and is therefore, as a whole, under GPL-2.0-only; this header and ale_plugin.cc are
// not, and include nothing of the program that loads them.
//
// A console is used by one thread at a time; a process may hold any number of them. A console must
// be made in the process that uses it (after a fork, not before).
#ifndef SHOAL_PLUGINS_ALE_ALE_PLUGIN_H_
#define SHOAL_PLUGINS_ALE_ALE_PLUGIN_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {
  SHOAL_ALE_VERSION = 1,       // incremented for every incompatible change of this file
  SHOAL_ALE_MAX_ACTIONS = 18,  // joystick positions and the button
  SHOAL_ALE_RAM_BYTES = 128
};

typedef struct shoal_ale_console shoal_ale_console;

// The result of one emulated frame.
typedef struct shoal_ale_frame {
  int reward;
  int lives;
  int game_over;  // 1 after the last frame of a game; then only reset() may follow
} shoal_ale_frame;

// Buffer for an error message: zero-terminated, cut to `size` bytes.
typedef struct shoal_ale_error {
  char* text;
  size_t size;
} shoal_ale_error;

typedef struct shoal_ale_api {
  int version;

  // Starts a console with the ROM in the file `rom`. NULL on failure: no such file, or not a
  // supported game.
  shoal_ale_console* (*create)(const char* rom, shoal_ale_error error);
  void (*destroy)(shoal_ale_console*);

  // Begins a new game.
  shoal_ale_frame (*reset)(shoal_ale_console*);
  // Emulates one frame with one of the codes from actions().
  shoal_ale_frame (*act)(shoal_ale_console*, int action);

  // Writes the codes of the game's minimal action set (full = 0), or of all actions (full = 1), and
  // returns their number. Code 0 is "no operation" and comes first, 1 is the button.
  int (*actions)(shoal_ale_console*, int full, int codes[SHOAL_ALE_MAX_ACTIONS]);

  void (*screen_size)(shoal_ale_console*, int* height, int* width);
  // The current screen [height, width], one colour number per pixel, always even. Valid until the
  // console is destroyed; reset() and act() change it, load() does not.
  const uint8_t* (*screen)(shoal_ale_console*);
  // ALE's luminance, and red, green, blue, of colour number 2 * i.
  void (*palette)(shoal_ale_console*, uint8_t gray[128], uint8_t rgb[128][3]);
  void (*ram)(shoal_ale_console*, uint8_t bytes[SHOAL_ALE_RAM_BYTES]);

  // Writes the console's complete state if it fits into `capacity` bytes; returns its size, 0 on
  // failure.
  size_t (*save)(shoal_ale_console*, uint8_t* bytes, size_t capacity);
  // Restores a saved state of the same game. 0 on failure; the console's state is then undefined.
  int (*load)(shoal_ale_console*, const uint8_t* bytes, size_t size);
} shoal_ale_api;

// The exported symbol of the library, and its type for dlsym.
typedef const shoal_ale_api* (*shoal_ale_get_api_function)(void);
#define SHOAL_ALE_GET_API "shoal_ale_get_api"

#ifdef __cplusplus
}  // extern "C"
#endif

#endif  // SHOAL_PLUGINS_ALE_ALE_PLUGIN_H_
