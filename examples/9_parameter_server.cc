// A parameter server. Four processes compute gradients from their own examples and write them to
// the memory from which the server reads. The parameters are in shared memory, too.
//
//   build/release/bin/examples/9_parameter_server [updates] [mlp|resnet50] [together|apart]
//
// mlp: a million parameters; resnet50: an MLP with 25.6 million parameters, as many as ResNet-50.
// together: each update uses the mean of all gradients, and all trainers wait for it; apart: each
// gradient is an update of its own, and trainers do not wait for each other.
#include <torch/torch.h>

#include <cstdlib>
#include <cstring>

#include "shoal/ipc/parameter_server.h"
#include "shoal/ipc/worker_group.h"
#include "shoal/models/flat_mlp.h"

constexpr int kTrainers = 4;

using Numbers = std::span<float>;

void sgd(std::size_t, Numbers parameters, std::span<const float> gradient) {
  for (std::size_t i = 0; i < gradient.size(); ++i) parameters[i] -= 0.1F * gradient[i];
}

[[noreturn]] void train(const shoal::ParameterServer& server, int number, const shoal::FlatMlp& mlp,
                        Numbers losses) {
  at::set_num_threads(1);
  torch::manual_seed(number);
  auto trainer = server.trainer(number);
  auto* const read_only = const_cast<float*>(trainer.parameters().data());
  const auto parameters = torch::from_blob(read_only, {mlp.size()}).requires_grad_();
  auto gradient = torch::from_blob(trainer.gradient().data(), {mlp.size()});
  const auto x = torch::randn({32, mlp.in()}), wanted = x.slice(1, 0, mlp.out());
  do {
    const auto loss = (mlp.forward(parameters, x) - wanted).square().mean();
    gradient.copy_(torch::autograd::grad({loss}, {parameters})[0]);
    losses[static_cast<std::size_t>(number)] = loss.item<float>();
  } while (trainer.push());
  std::_Exit(0);
}

int main(int argc, char** argv) {
  const int updates = argc > 1 ? std::atoi(argv[1]) : 100;
  const bool large = argc > 2 && std::strcmp(argv[2], "resnet50") == 0;
  const bool apart = argc > 3 && std::strcmp(argv[3], "apart") == 0;
  const shoal::FlatMlp mlp{large ? std::vector<std::int64_t>{2048, 4096, 4096, 96}
                                 : std::vector<std::int64_t>{256, 768, 1024, 10}};
  at::set_num_threads(1);
  auto initial = torch::empty({mlp.size()});
  mlp.initialise(initial, 1);
  shoal::ParameterServer server(
      Numbers(initial.data_ptr<float>(), static_cast<std::size_t>(mlp.size())),
      {.trainers = kTrainers, .asynchronous = apart}, sgd);

  shoal::Arena::Plan plan;
  const auto field = plan.add({kTrainers}, {});
  const shoal::Arena arena(plan);
  const Numbers losses(reinterpret_cast<float*>(arena.data(field)), kTrainers);

  shoal::WorkerGroup trainers(kTrainers, [&](int w, auto) { train(server, w, mlp, losses); });
  const auto start = std::chrono::steady_clock::now();
  while (server.updates() < updates) {
    if (server.serve(std::chrono::milliseconds(200)) == 0) trainers.check();
    if (server.updates() % 10 == 0)
      fmt::print("\rupdate {:4}: loss {:.4f}", server.updates(),
                 (losses[0] + losses[1] + losses[2] + losses[3]) / kTrainers);
  }
  const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - start;
  const int gradients = apart ? updates : updates * kTrainers;
  fmt::print(
      "\n{} parameters, {} trainers: {:.0f} gradients/s, staleness {:.1f} updates ({} at most)\n",
      mlp.size(), kTrainers, gradients / passed.count(), server.mean_stale(), server.most_stale());
}
