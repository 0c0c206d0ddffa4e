#include "mujoco_plugin.h"

#include <mujoco/mujoco.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>

#include "renderer.h"

struct shoal_mujoco_model {
  mjModel* physics;
  shoal_mujoco_constants constants;
};

struct shoal_mujoco_simulation {
  const mjModel* physics;
  mjData* data;
  shoal_mujoco_arrays arrays;
  std::unique_ptr<shoal_mujoco::Renderer> renderer;  // made for the first picture
};

namespace {

using Model = shoal_mujoco_model;
using Simulation = shoal_mujoco_simulation;

// MuJoCo's own handler would wait for a key press.
void end_process(const char* text) {
  std::fprintf(stderr, "MuJoCo: %s\n", text);
  std::exit(1);
}

// MuJoCo's own handler would write to a file in the working directory. Warnings report simulations
// that diverge and are reset, which an untrained agent may cause in every episode.
void warn(const char* text) {
  static std::atomic<int> left = 10;
  if (left.fetch_sub(1) > 0) std::fprintf(stderr, "MuJoCo: warning: %s\n", text);
}

Model* load_model(const char* file, shoal_mujoco_error error) {
  mjModel* m = mj_loadXML(file, nullptr, error.text, static_cast<int>(error.size));
  if (m == nullptr) return nullptr;
  return new Model{m,
                   {.nq = static_cast<size_t>(m->nq),
                    .nv = static_cast<size_t>(m->nv),
                    .nu = static_cast<size_t>(m->nu),
                    .nbody = static_cast<size_t>(m->nbody),
                    .state = static_cast<size_t>(mj_stateSize(m, mjSTATE_INTEGRATION)),
                    .timestep = m->opt.timestep,
                    .qpos0 = m->qpos0,
                    .ctrlrange = m->actuator_ctrlrange,
                    .body_mass = m->body_mass}};
}

void free_model(Model* model) {
  mj_deleteModel(model->physics);
  delete model;
}

const shoal_mujoco_constants* constants(const Model* model) { return &model->constants; }

int body(const Model* model, const char* name) {
  return mj_name2id(model->physics, mjOBJ_BODY, name);
}

Simulation* create(const Model* model) {
  mjData* d = mj_makeData(model->physics);
  if (d == nullptr) return nullptr;
  return new Simulation{model->physics,
                        d,
                        {.qpos = d->qpos,
                         .qvel = d->qvel,
                         .ctrl = d->ctrl,
                         .xpos = d->xpos,
                         .xipos = d->xipos,
                         .site_xpos = d->site_xpos,
                         .cinert = d->cinert,
                         .cvel = d->cvel,
                         .qfrc_actuator = d->qfrc_actuator,
                         .qfrc_constraint = d->qfrc_constraint,
                         .cfrc_ext = d->cfrc_ext},
                        nullptr};
}

void destroy(Simulation* simulation) {
  mj_deleteData(simulation->data);
  delete simulation;
}

const shoal_mujoco_arrays* arrays(const Simulation* simulation) { return &simulation->arrays; }

void reset(Simulation* simulation) { mj_resetData(simulation->physics, simulation->data); }

void forward(Simulation* simulation) { mj_forward(simulation->physics, simulation->data); }

void step(Simulation* simulation, int n) {
  for (int i = 0; i < n; ++i) mj_step(simulation->physics, simulation->data);
}

void contact_forces(Simulation* simulation) {
  mj_rnePostConstraint(simulation->physics, simulation->data);
}

void save(const Simulation* simulation, double* state) {
  mj_getState(simulation->physics, simulation->data, state, mjSTATE_INTEGRATION);
}

void load(Simulation* simulation, const double* state) {
  mj_setState(simulation->physics, simulation->data, state, mjSTATE_INTEGRATION);
}

int render(Simulation* simulation, int height, int width, unsigned char* rgb,
           shoal_mujoco_error error) try {
  auto& renderer = simulation->renderer;
  if (renderer == nullptr) renderer = std::make_unique<shoal_mujoco::Renderer>(simulation->physics);
  renderer->draw(simulation->data, height, width, rgb);
  return 0;
} catch (const std::exception& e) {
  std::snprintf(error.text, error.size, "%s", e.what());
  return -1;
}

constexpr shoal_mujoco_api kApi = {.version = SHOAL_MUJOCO_VERSION,
                                   .load_model = load_model,
                                   .free_model = free_model,
                                   .constants = constants,
                                   .body = body,
                                   .create = create,
                                   .destroy = destroy,
                                   .arrays = arrays,
                                   .reset = reset,
                                   .forward = forward,
                                   .step = step,
                                   .contact_forces = contact_forces,
                                   .save = save,
                                   .load = load,
                                   .render = render};

}  // namespace

extern "C" __attribute__((visibility("default"))) const shoal_mujoco_api* shoal_mujoco_get_api(
    void) {
  mju_user_error = end_process;
  mju_user_warning = warn;
  return &kApi;
}
