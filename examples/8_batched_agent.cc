// One agent acts for eight processes with a CartPole each. The last request to arrive triggers the
// batch, and all processes get their actions. The agent learns from their episodes with REINFORCE
// (Williams, 1992).
//
//   build/release/bin/examples/8_batched_agent [updates]
#include <torch/torch.h>

#include <cstdlib>

#include "shoal/envs/classic_control.h"
#include "shoal/ipc/batch_service.h"
#include "shoal/ipc/worker_group.h"

// Request: an observation of four numbers, and whether it begins an episode. Reply: an action.
using Service = shoal::BatchService<float, std::int64_t>;
constexpr std::chrono::milliseconds kPatience{200};
struct Episode {
  std::vector<torch::Tensor> observations, actions;
};

[[noreturn]] void observe(const Service& service, int number) {
  const auto env = shoal::make_cart_pole()({.index = number});
  auto client = service.client(number);
  auto* to = reinterpret_cast<std::byte*>(client.request().data());
  const auto* action = reinterpret_cast<const std::byte*>(client.reply().data());
  const shoal::StepOut out{.observation = shoal::ArraysOut({&to, 1}), .info = {}};
  env->reset(static_cast<std::uint64_t>(number), out);
  for (client.request()[4] = false;;) {
    auto ticket = client.submit();  // the process may do other work before it waits
    while (!ticket.wait(kPatience)) continue;
    client.request()[4] = env->step(shoal::ArraysIn({&action, 1}), out).episode_over();
    if (client.request()[4] != 0) env->reset({}, out);
  }
}

// The policy's loss over whole episodes with a reward of 1 per step.
torch::Tensor loss_of(torch::nn::Sequential& policy, const std::vector<Episode>& episodes) {
  std::vector<torch::Tensor> log_probs, returns;
  for (const auto& [observations, actions] : episodes) {
    const auto all = torch::log_softmax(policy->forward(torch::stack(observations)), 1);
    log_probs.push_back(all.gather(1, torch::stack(actions)));
    returns.push_back((1 - torch::pow(0.99, torch::arange(all.size(0), 0, -1))) / (1 - 0.99));
  }
  const auto worth = torch::cat(returns);
  return -(torch::cat(log_probs).squeeze(1) * (worth - worth.mean()) / worth.std()).mean();
}

int main(int argc, char** argv) {
  constexpr int kObservers = 8;
  at::set_num_threads(1);
  Service service({.clients = kObservers, .request_length = 5});
  shoal::WorkerGroup observers(kObservers, [&](int w, auto) { observe(service, w); });
  torch::manual_seed(1);
  torch::nn::Sequential policy(torch::nn::Linear(4, 128), torch::nn::ReLU(),
                               torch::nn::Linear(128, 2));
  torch::optim::Adam adam(policy->parameters(), 0.01);
  std::vector<Episode> playing(kObservers), played;
  const auto act = [&](std::span<const int> clients) {
    const torch::NoGradGuard no_grad;
    const auto seen =
        torch::from_blob(service.requests().data(), {kObservers, 5}).slice(1, 0, 4).clone();
    const auto actions = torch::softmax(policy->forward(seen), 1).multinomial(1);
    for (const int c : clients) {
      if (service.request(c)[4] != 0) played.push_back(std::exchange(playing[c], {}));
      playing[c].observations.push_back(seen[c]);
      playing[c].actions.push_back(actions[c]);
      service.reply(c)[0] = actions[c].item<std::int64_t>();
    }
  };
  for (int update = 1, updates = argc > 1 ? std::atoi(argv[1]) : 50; update <= updates; ++update) {
    for (played.clear(); played.size() < 16;)
      if (service.serve(act, kPatience) == 0) observers.check();
    adam.zero_grad();
    loss_of(policy, played).backward();
    adam.step();
    double steps = 0;
    for (const auto& episode : played) steps += static_cast<double>(episode.actions.size());
    fmt::print("update {:3}: mean return {:5.1f}\n", update, steps / double(played.size()));
  }
}
