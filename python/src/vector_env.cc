#include "shoal/samplers/vector_env.h"

#include "bindings.h"
#include "interruptible.h"
#include "src/envs/construction.h"

namespace shoal::bindings {
namespace {

struct BoundVectorEnv {
  std::unique_ptr<VectorEnv> env;

  VectorEnv& open() const {
    require(env != nullptr, "the environments are closed");
    return *env;
  }
};

BoundVectorEnv make(const Config& config, int workers, const std::vector<std::uint64_t>& seeds,
                    bool next_step) {
  const py::gil_scoped_release unlocked;
  const auto& s = config.sampler;
  return {make_vector_env(make_env_factory(config), {.envs = std::ssize(seeds),
                                                     .workers = workers,
                                                     .seeds = seeds,
                                                     .next_step = next_step,
                                                     .pin = s.pin,
                                                     .step_limit = s.step_limit,
                                                     .reset_limit = s.reset_limit})};
}

py::dict rows(const BoundVectorEnv& e) {
  const auto& r = e.open().rows();
  py::dict d;
  d["observation"] = as_dict(r.observation);
  d["action"] = as_dict(r.action);
  d["mask"] = as_dict(r.mask);
  d["env_info"] = as_dict(r.env_info);
  d["reward"] = r.reward;
  d["terminated"] = r.terminated;
  d["truncated"] = r.truncated;
  return d;
}

}  // namespace

void bind_vector_env(py::module_& m) {
  m.def(
      "env_spec",
      [](const Config& config) {
        const py::gil_scoped_release unlocked;
        return spec_of(make_env_factory(config), {}, config.sampler.reset_limit);
      },
      py::arg("config"));
  py::class_<BoundVectorEnv>(m, "VectorEnv", "Environments that Python chooses the actions for.")
      .def(py::init(&make), py::arg("config"), py::arg("workers"), py::arg("seeds"),
           py::arg("next_step"))
      .def("rows", &rows)
      .def_property_readonly("row", [](const BoundVectorEnv& e) { return e.open().row(); })
      .def("start",
           [](const BoundVectorEnv& e) {
             const py::gil_scoped_release unlocked;
             e.open().start();
           })
      .def("finish",
           [](const BoundVectorEnv& e) { return interruptible([&] { return e.open().finish(); }); })
      .def(
          "reset",
          [](const BoundVectorEnv& e, const std::vector<std::int64_t>& envs,
             const std::vector<std::optional<std::uint64_t>>& seeds) {
            return interruptible([&] {
              e.open().reset(envs, seeds);
              return true;
            });
          },
          py::arg("envs"), py::arg("seeds"))
      .def("observation", [](const BoundVectorEnv& e) { return as_dict(e.open().observation()); })
      .def("final_observation",
           [](const BoundVectorEnv& e) { return as_dict(e.open().final_observation()); })
      .def("close", [](BoundVectorEnv& e) {
        const py::gil_scoped_release unlocked;
        e.env.reset();
      });
}

}  // namespace shoal::bindings
