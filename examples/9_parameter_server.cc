// A parameter server: four processes compute gradients, each from examples of its own, and write
// them where the server reads them. The last one triggers the update; then all go on with the new
// parameters, which they read where they lie.
//
//   build/release/bin/examples/9_parameter_server [updates] [mlp|resnet50]
//
// mlp: a million parameters; resnet50: an MLP with as many as ResNet-50 has, 25.6 million.
#include <torch/torch.h>

#include <chrono>
#include <cstdlib>
#include <cstring>

#include "shoal/core/batch_service.h"
#include "shoal/core/worker_group.h"
#include "shoal/models/flat_mlp.h"

constexpr int kTrainers = 4;
constexpr std::chrono::milliseconds kPatience{200};
using Service = shoal::BatchService<float, float>;  // a gradient, and the loss behind it

// Parameters that all processes see.
torch::Tensor share(const shoal::FlatMlp& mlp) {
  shoal::Arena::Plan plan;
  const auto field = plan.add({mlp.size()}, {});
  const shoal::Arena arena(plan);
  return torch::from_blob(arena.data(field), {mlp.size()},
                          [region = arena.owner()](void*) {});  // which keeps them alive
}

[[noreturn]] void train(const Service& service, int number, const shoal::FlatMlp& mlp,
                        torch::Tensor parameters) {
  at::set_num_threads(1);
  torch::manual_seed(number);
  auto client = service.client(number);
  auto gradient = torch::from_blob(client.request().data(), {mlp.size()});
  const auto x = torch::randn({32, mlp.in()}), wanted = x.slice(1, 0, mlp.out());
  parameters.requires_grad_();
  for (;;) {
    const auto loss = (mlp.forward(parameters, x) - wanted).square().mean();
    gradient.copy_(torch::autograd::grad({loss}, {parameters})[0]);
    client.request().back() = loss.item<float>();
    auto ticket = client.submit();
    while (!ticket.wait(kPatience)) continue;
  }
}

int main(int argc, char** argv) {
  const int updates = argc > 1 ? std::atoi(argv[1]) : 100;
  const bool large = argc > 2 && std::strcmp(argv[2], "resnet50") == 0;
  const shoal::FlatMlp mlp{large ? std::vector<std::int64_t>{2048, 4096, 4096, 96}
                                 : std::vector<std::int64_t>{256, 768, 1024, 10}};
  at::set_num_threads(1);
  auto parameters = share(mlp);
  mlp.initialise(parameters, 1);
  Service service({.clients = kTrainers, .request_length = mlp.size() + 1, .reply_length = 0});
  shoal::WorkerGroup trainers(kTrainers, [&](int w, auto) { train(service, w, mlp, parameters); });

  const auto gradients = torch::from_blob(service.requests().data(), {kTrainers, mlp.size() + 1});
  const auto start = std::chrono::steady_clock::now();
  for (int update = 1; update <= updates;) {
    const auto apply = [&](std::span<const int>) {  // one step of SGD with the mean of all
      const auto mean = gradients.mean(0);
      parameters.sub_(mean.slice(0, 0, mlp.size()), 0.1);
      if (update % 10 == 0)
        fmt::print("update {:4}: loss {:.4f}\n", update, mean[-1].item<float>());
    };
    if (service.serve(apply, kPatience) == 0)
      trainers.check();
    else
      ++update;
  }
  const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - start;
  fmt::print("{} parameters, {} trainers: {:.0f} gradients a second\n", mlp.size(), kTrainers,
             updates * kTrainers / passed.count());
}
