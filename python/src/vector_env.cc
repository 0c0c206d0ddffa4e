#include "shoal/samplers/vector_env.h"

#include "bindings.h"
#include "interruptible.h"
#include "src/envs/construction.h"

namespace shoal::bindings {
namespace {

using BoundVectorEnv = Owned<VectorEnv>;

std::unique_ptr<BoundVectorEnv> make(const Config& config, int workers,
                                     const std::vector<std::uint64_t>& seeds, bool next_step) {
  const auto& s = config.sampler;
  auto bound = std::make_unique<BoundVectorEnv>("vector environment");
  bound->open(interruptible([&] {
    return make_vector_env(make_env_factory(config), {.envs = std::ssize(seeds),
                                                      .workers = workers,
                                                      .seeds = seeds,
                                                      .next_step = next_step,
                                                      .pin = s.pin,
                                                      .step_limit = s.step_limit,
                                                      .reset_limit = s.reset_limit});
  }));
  return bound;
}

py::dict rows(const BoundVectorEnv& e) {
  const auto r = e.use([](VectorEnv& env) { return env.rows(); });
  py::dict d;
  d["observation"] = as_dict(r.observation);
  d["action"] = as_dict(r.action);
  d["mask"] = as_dict(r.mask);
  d["env_info"] = as_dict(r.env_info);
  d["reward"] = r.reward;
  d["terminated"] = r.terminated;
  d["truncated"] = r.truncated;
  d["began"] = r.began;
  return d;
}

}  // namespace

void bind_vector_env(py::module_& m) {
  m.def(
      "env_spec",
      [](const Config& config) {
        return interruptible(
            [&] { return spec_of(make_env_factory(config), {}, config.sampler.reset_limit); });
      },
      py::arg("config"));
  py::class_<BoundVectorEnv>(m, "VectorEnv", "Environments that Python chooses the actions for.")
      .def(py::init(&make), py::arg("config"), py::arg("workers"), py::arg("seeds"),
           py::arg("next_step"))
      .def("rows", &rows)
      .def_property_readonly(
          "row",
          [](const BoundVectorEnv& e) { return e.use([](VectorEnv& env) { return env.row(); }); })
      .def("start",
           [](const BoundVectorEnv& e) {
             const py::gil_scoped_release unlocked;
             e.use([](VectorEnv& env) { env.start(); });
           })
      .def("finish",
           [](const BoundVectorEnv& e) {
             return interruptible(
                 [&] { return e.use([](VectorEnv& env) { return env.finish(); }); });
           })
      .def(
          "reset",
          [](const BoundVectorEnv& e, const std::vector<std::int64_t>& envs,
             const std::vector<std::optional<std::uint64_t>>& seeds) {
            return interruptible([&] {
              e.use([&](VectorEnv& env) { env.reset(envs, seeds); });
              return true;
            });
          },
          py::arg("envs"), py::arg("seeds"))
      .def("observation",
           [](const BoundVectorEnv& e) {
             return as_dict(e.use([](VectorEnv& env) { return env.observation(); }));
           })
      .def("final_observation",
           [](const BoundVectorEnv& e) {
             return as_dict(e.use([](VectorEnv& env) { return env.final_observation(); }));
           })
      .def("close", [](BoundVectorEnv& e) {
        const py::gil_scoped_release unlocked;
        e.close();
      });
}

}  // namespace shoal::bindings
