#include "shoal/runners/on_policy.h"

#include <ATen/Parallel.h>

#include <stdexcept>

#include "shoal/core/error.h"
#include "shoal/core/worker_group.h"
#include "shoal/runners/device.h"

namespace shoal {
namespace {

// An Error here is no mistake of the user's: a disk is full, or an environment threw it.
template <class Action>
void while_training(Action action) {
  try {
    action();
  } catch (const Error& e) {
    throw std::runtime_error(e.what());
  }
}

}  // namespace

void run_on_policy(Session& session, Sampler& sampler, OnPolicyAlgo& algo) {
  while_training([&] {
    while (session.running()) {
      const Batch batch = sampler.collect();
      const Progress progress = session.advance(batch);
      session.report(algo.update(batch.samples, progress), sampler.times());
    }
  });
}

TrainingEnd train(const Config& config, const std::filesystem::path& folder, bool quiet) {
  Session session(config, folder, quiet);
  const auto make_env = make_env_factory(config.env_id, config.env);
  at::set_num_threads(1);  // no thread pool may exist when the workers are forked
  const auto spec = make_env({})->spec();
  const auto agent = make_agent(config, spec);
  require_minibatch_fits(config, spec);
  const auto sampler = make_sampler(make_env, *agent, training_sampler(config));

  const auto device = parse_device(config.device);
  open_device(device);
  agent->to(device);
  at::set_num_threads(config.threads > 0 ? config.threads
                                         : static_cast<int>(allowed_cores().size()));
  const auto algo = make_algo(config, *agent);

  session.begin(*agent, *algo);
  run_on_policy(session, *sampler, *algo);
  while_training([&] { session.finish(); });
  return {
      .signal = session.stop_signal(), .solved = session.solved(), .episodes = session.episodes()};
}

}  // namespace shoal
