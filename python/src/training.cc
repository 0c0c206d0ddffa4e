#include <ATen/Parallel.h>

#include "bindings.h"
#include "cli/commands.h"
#include "cli/run_process.h"
#include "cli/train_settings.h"
#include "interruptible.h"
#include "shoal/cli/command_line.h"
#include "shoal/data/saved.h"
#include "shoal/runners/evaluation.h"
#include "shoal/runners/train.h"

namespace shoal::bindings {
namespace {

// Training sets the number of torch's threads; the caller's comes back afterwards.
class ThreadsKept {
 public:
  ThreadsKept() : threads_(at::get_num_threads()) {}
  ~ThreadsKept() { at::set_num_threads(threads_); }
  ThreadsKept(const ThreadsKept&) = delete;
  ThreadsKept& operator=(const ThreadsKept&) = delete;

 private:
  int threads_;
};

std::vector<double> play(const Config& config, BoundAgent& agent,
                         const EvaluationOptions& options) {
  return agent.use([&](Agent& own) {
    NamedTensors learned;  // buffers of a module may be infinite
    for (const auto& [name, tensor] : own.parameters())
      if (tensor.requires_grad() || !agent.own_module) learned.add(name, tensor);
    require_finite(learned);
    return evaluate(make_env_factory(config), own, options).returns;
  });
}

}  // namespace

void bind_training(py::module_& m) {
  m.def(
      "train",
      [](const Config& config, const std::filesystem::path& folder, bool resume, bool quiet) {
        try {
          const py::gil_scoped_release unlocked;
          const ThreadsKept kept;
          validate(config);
          return train(config, folder,
                       {.quiet = quiet, .resume = resume, .ends_at_once = config.ranks > 1})
              .signal;
        } catch (const Interrupted& before_the_first_rollout) {
          return before_the_first_rollout.signal;
        }
      },
      "The signal that ended it; 0: none.", py::arg("config"), py::arg("folder"), py::arg("resume"),
      py::arg("quiet"));
  m.def("may_change", &cli::may_change, "Whether a resumed run may change this setting.",
        py::arg("key"));
  m.def("keys_of_file", &cli::keys_of_file,
        "The settings that the file `source` changes; none if it is a preset.", py::arg("source"),
        py::arg("read"));
  m.def("without_effect", &cli::without_effect,
        "Lines about those of the settings `keys` that change nothing.", py::arg("config"),
        py::arg("keys"));
  m.def(
      "evaluate",
      [](const Config& config, BoundAgent& agent, std::int64_t episodes, int workers,
         std::uint64_t seed, bool greedy) {
        const auto kind = workers == 0 ? SamplerKind::kSerial : SamplerKind::kParallelGpu;
        return interruptible([&] {
          return play(config, agent,
                      {.episodes = episodes,
                       .workers = std::max(workers, 1),
                       .seed = seed,
                       .greedy = greedy,
                       .kind = kind,
                       .step_limit = config.sampler.step_limit,
                       .reset_limit = config.sampler.reset_limit});
        });
      },
      py::arg("config"), py::arg("agent"), py::arg("episodes"), py::arg("workers"), py::arg("seed"),
      py::arg("greedy"));
  m.def(
      "run_command_line",
      [](std::vector<std::string> arguments, std::vector<std::string> program) {
        cli::set_program(std::move(program));
        std::vector<char*> argv;
        for (auto& each : arguments) argv.push_back(each.data());
        argv.push_back(nullptr);
        const py::gil_scoped_release unlocked;
        return run_command_line(static_cast<int>(arguments.size()), argv.data());
      },
      py::arg("arguments"), py::arg("program"));
}

}  // namespace shoal::bindings
