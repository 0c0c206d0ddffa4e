// The C interface of the MuJoCo plugin: the physics of one model. The library behind it links
// MuJoCo (Apache-2.0), and is loaded only for such tasks.
//
// A model is immutable and may be shared by threads, simulations and forked processes; a simulation
// is used by one thread at a time. Nothing is allocated between create() and destroy(), but for
// render().
#ifndef SHOAL_PLUGINS_MUJOCO_MUJOCO_PLUGIN_H_
#define SHOAL_PLUGINS_MUJOCO_MUJOCO_PLUGIN_H_

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { SHOAL_MUJOCO_VERSION = 2 };  // incremented for every incompatible change of this file

typedef struct shoal_mujoco_model shoal_mujoco_model;
typedef struct shoal_mujoco_simulation shoal_mujoco_simulation;

// Buffer for an error message: zero-terminated, cut to `size` bytes.
typedef struct shoal_mujoco_error {
  char* text;
  size_t size;
} shoal_mujoco_error;

// Constants of a model. Names and units are MuJoCo's (mjModel).
typedef struct shoal_mujoco_constants {
  size_t nq, nv, nu, nbody;  // positions, velocities, controls, bodies (the first is the world)
  size_t state;              // size of a complete state, in numbers
  double timestep;           // seconds
  const double* qpos0;       // [nq]
  const double* ctrlrange;   // [nu, 2]
  const double* body_mass;   // [nbody]
} shoal_mujoco_constants;

// The data of a simulation (mjData). The pointers are valid until it is destroyed.
typedef struct shoal_mujoco_arrays {
  double *qpos, *qvel, *ctrl;                     // [nq], [nv], [nu]: writable
  const double *xpos, *xipos;                     // [nbody, 3]
  const double* site_xpos;                        // [sites, 3]
  const double *cinert, *cvel;                    // [nbody, 10], [nbody, 6]
  const double *qfrc_actuator, *qfrc_constraint;  // [nv]
  const double* cfrc_ext;                         // [nbody, 6], filled by contact_forces()
} shoal_mujoco_arrays;

typedef struct shoal_mujoco_api {
  int version;

  // Reads an MJCF file. NULL on failure.
  shoal_mujoco_model* (*load_model)(const char* file, shoal_mujoco_error error);
  void (*free_model)(shoal_mujoco_model*);
  const shoal_mujoco_constants* (*constants)(const shoal_mujoco_model*);
  // Index of the named body; -1 if there is none.
  int (*body)(const shoal_mujoco_model*, const char* name);

  // NULL if memory is exhausted. The model must outlive the simulation.
  shoal_mujoco_simulation* (*create)(const shoal_mujoco_model*);
  void (*destroy)(shoal_mujoco_simulation*);
  const shoal_mujoco_arrays* (*arrays)(const shoal_mujoco_simulation*);

  void (*reset)(shoal_mujoco_simulation*);    // to qpos0, at rest: mj_resetData
  void (*forward)(shoal_mujoco_simulation*);  // computes the quantities derived from qpos and qvel
  void (*step)(shoal_mujoco_simulation*, int n);     // n timesteps with the current controls
  void (*contact_forces)(shoal_mujoco_simulation*);  // fills cfrc_ext: mj_rnePostConstraint

  // Everything that the next step depends on (mjSTATE_INTEGRATION), `constants.state` numbers.
  // load() does not recompute derived quantities; the next step does.
  void (*save)(const shoal_mujoco_simulation*, double* state);
  void (*load)(shoal_mujoco_simulation*, const double* state);

  // Draws the simulation into rgb [height, width, 3], from the top row; returns 0. Or returns -1
  // and fills `error`, e.g. if the machine has no EGL. After load(), the picture is right from the
  // next step on.
  int (*render)(shoal_mujoco_simulation*, int height, int width, unsigned char* rgb,
                shoal_mujoco_error error);
} shoal_mujoco_api;

// The exported symbol of the library, and its type for dlsym.
typedef const shoal_mujoco_api* (*shoal_mujoco_get_api_function)(void);
#define SHOAL_MUJOCO_GET_API "shoal_mujoco_get_api"

#ifdef __cplusplus
}  // extern "C"
#endif

#endif  // SHOAL_PLUGINS_MUJOCO_MUJOCO_PLUGIN_H_
