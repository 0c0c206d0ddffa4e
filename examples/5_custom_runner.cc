// A runner of your own. You write the loop; the session handles the run folder, the progress file,
// checkpoints, and a clean end on Ctrl-C. Started again with the same folder, the program resumes
// the run. `shoal eval FOLDER` evaluates it.
//
//   build/release/bin/examples/5_custom_runner [steps] [folder]
#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>

#include "shoal/runners/session.h"

int main(int argc, char** argv) {
  // [session]
  const std::filesystem::path folder = argc > 2 ? argv[2] : shoal::default_run_folder("custom", 1);
  const bool resume = std::filesystem::exists(folder / shoal::kCheckpointFile);
  shoal::Config config = resume ? shoal::read_run_config(folder) : shoal::preset("cartpole-ppo");
  if (argc > 1) config.steps = std::atoll(argv[1]);
  shoal::Session session(config, folder, {.resume = resume});  // locks the folder, handles Ctrl-C
  // [session]

  // [parts]
  at::set_num_threads(1);
  const auto agent = shoal::make_agent(config);
  const auto make_env = shoal::make_env_factory(config);
  auto sampling = shoal::training_sampler(config);
  sampling.on_failure = session.failure_handler();  // for `shoal rewind`
  const auto sampler = shoal::make_sampler(make_env, *agent, sampling, session.sampler_state());
  const auto algo = shoal::make_algo(config, *agent);
  // [parts]

  // [loop]
  session.begin(*agent, *algo, sampler.get());
  while (session.running()) {
    const shoal::Batch batch = sampler->collect();
    shoal::Metrics metrics = algo->update(batch.samples, session.advance(batch));
    metrics.emplace_back("episodes_ended", batch.episodes.size());  // a column of your own
    session.report(metrics, sampler->times());
  }
  session.finish();
  fmt::print("{} holds {} steps\n", session.folder().string(), session.steps());
  return session.stop_signal() == 0 ? 0 : 128 + session.stop_signal();
  // [loop]
}
