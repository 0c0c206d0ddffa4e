#include <ATen/TensorOperators.h>

#include "bindings.h"
#include "shoal/replays/sequence_replay.h"
#include "shoal/replays/step_replay.h"

namespace shoal::bindings {
namespace {

// The caller's own tensors: those of a draw are views that the next one overwrites.
py::object own(const at::Tensor& t) { return py::cast(t.clone()); }

py::object own(const NamedTensors& tensors) {
  return one_or_dict(tensors, [](const at::Tensor& t) { return t.clone(); });
}

// [time * N, ...] as [time, N, ...].
at::Tensor by_time(const at::Tensor& t, std::int64_t time) {
  auto shape = t.sizes().vec();
  shape[0] /= time;
  shape.insert(shape.begin(), time);
  return t.clone().view(shape);
}

py::object by_time(const NamedTensors& tensors, std::int64_t time) {
  return one_or_dict(tensors, [&](const at::Tensor& t) { return by_time(t, time); });
}

py::object dense(const Observations& observations) {
  return one_or_dict(observations, [](const Observed& o) { return o.dense().clone(); });
}

py::dict drawn(const Transitions& batch) {
  py::dict d;
  d["observation"] = dense(batch.observation);
  d["action"] = own(batch.action);
  d["reward"] = own(batch.reward);
  d["discount"] = own(batch.discount);
  d["next_observation"] = dense(batch.next_observation);
  d["mask"] = own(batch.mask);
  d["next_mask"] = own(batch.next_mask);
  d["weight"] = own(batch.weight);
  d["index"] = own(batch.index);
  return d;
}

py::dict drawn(const Sequences& s) {
  py::dict d;
  d["burn_in"] = s.burn_in;
  d["observation"] =
      one_or_dict(s.observation, [&](const Observed& o) { return by_time(o.dense(), s.rows); });
  d["mask"] = by_time(s.mask, s.rows);
  d["previous_action"] = by_time(s.previous_action, s.rows);
  d["previous_reward"] = by_time(s.previous_reward, s.rows);
  d["is_first"] = by_time(s.is_first, s.rows);
  d["state"] = own(s.state);
  d["action"] = by_time(s.action, s.length);
  d["reward"] = by_time(s.reward, s.length);
  d["discount"] = by_time(s.discount, s.length);
  d["next"] = by_time(s.next, s.length);
  d["valid"] = by_time(s.valid, s.length);
  d["weight"] = own(s.weight);
  d["index"] = own(s.index);
  return d;
}

template <class R, class Make, class... Arguments>
void bind_replay(py::module_& m, const char* name, Make make, const Arguments&... arguments) {
  py::class_<R>(m, name, "A replay; see shoal.Replay.")
      .def(py::init(make), arguments...)
      .def(
          "append",
          [](R& replay, const py::object& batch) {
            // With the GIL: no other thread may sample or collect meanwhile.
            replay.append(samples_of(batch)());
          },
          py::arg("batch"))
      .def(
          "sample",
          [](R& replay, std::int64_t n, double beta) { return drawn(replay.sample(n, beta)); },
          py::arg("n"), py::arg("beta"))
      .def("update_priorities", &R::update_priorities, py::arg("index"), py::arg("priority"))
      .def("__len__", &R::size);
}

}  // namespace

void bind_replays(py::module_& m) {
  bind_replay<StepReplay>(
      m, "StepReplay",
      [](const BoundAgent& agent, std::int64_t envs, std::int64_t size, int n_step, double discount,
         bool prioritized, double alpha, std::uint64_t seed, std::int64_t largest_batch) {
        return std::make_unique<StepReplay>(agent.env, envs,
                                            StepReplayOptions{.size = size,
                                                              .n_step = n_step,
                                                              .discount = discount,
                                                              .prioritized = prioritized,
                                                              .alpha = alpha,
                                                              .seed = seed,
                                                              .largest_batch = largest_batch});
      },
      py::arg("agent"), py::arg("envs"), py::arg("size"), py::arg("n_step"), py::arg("discount"),
      py::arg("prioritized"), py::arg("alpha"), py::arg("seed"), py::arg("largest_batch"));
  bind_replay<SequenceReplay>(
      m, "SequenceReplay",
      [](const BoundAgent& agent, std::int64_t envs, std::int64_t interval, std::int64_t size,
         std::int64_t burn_in, std::int64_t length, int n_step, double discount, bool prioritized,
         double alpha, std::uint64_t seed, std::int64_t largest_batch) {
        return std::make_unique<SequenceReplay>(
            agent.env, agent.spec().state, envs,
            SequenceReplayOptions{.size = size,
                                  .burn_in = burn_in,
                                  .length = length,
                                  .interval = interval,
                                  .n_step = n_step,
                                  .discount = discount,
                                  .prioritized = prioritized,
                                  .alpha = alpha,
                                  .seed = seed,
                                  .largest_batch = largest_batch});
      },
      py::arg("agent"), py::arg("envs"), py::arg("interval"), py::arg("size"), py::arg("burn_in"),
      py::arg("length"), py::arg("n_step"), py::arg("discount"), py::arg("prioritized"),
      py::arg("alpha"), py::arg("seed"), py::arg("largest_batch"));
}

}  // namespace shoal::bindings
