// The loop of examples/2_cartpole_parallel for a few updates. Writes the agent's parameters to a
// file, one after the other.
//
//   python_reference FILE UPDATES
#include <ATen/Parallel.h>

#include <cstdlib>
#include <fstream>

#include "shoal/agents/actor_critic.h"
#include "shoal/algos/ppo.h"
#include "shoal/envs/registry.h"
#include "shoal/samplers/sampler.h"

int main(int, char** argv) {
  at::set_num_threads(1);
  const auto make_env = shoal::make_env_factory("CartPole-v1");
  const auto agent = shoal::make_actor_critic(make_env({})->spec(), {.hidden = {64, 64}}, {}, 1);
  const auto sampler = shoal::make_sampler(make_env, *agent, {.horizon = 32, .workers = 2});
  const auto algo = shoal::make_ppo(*agent, {.learning_rate = 1e-3,
                                             .discount = 0.98,
                                             .gae_lambda = 0.8,
                                             .epochs = 10,
                                             .minibatches = 2,
                                             .clip = 0.2,
                                             .entropy_coef = 0});
  shoal::Progress progress{.schedule_steps = 200'000};
  for (int update = 0; update < std::atoi(argv[2]); ++update) {
    const auto batch = sampler->collect();
    algo->update(batch.samples, progress);
    progress.steps += batch.samples.steps;
  }
  std::ofstream file(argv[1], std::ios::binary);
  for (const auto& [name, tensor] : agent->parameters()) {
    const auto whole = tensor.detach().contiguous();
    file.write(static_cast<const char*>(whole.const_data_ptr()),
               static_cast<std::streamsize>(whole.nbytes()));
  }
  return file.good() ? 0 : 1;
}
