#include <ATen/ATen.h>

#include <array>
#include <chrono>
#include <cmath>
#include <span>

#include "benchmarks/service.h"
#include "shoal/core/rng.h"
#include "shoal/envs/classic_control.h"
#include "shoal/ipc/batch_service.h"
#include "src/models/panel_mlp.h"

namespace shoal::cli {
namespace {

constexpr std::int64_t kObserved = 4;
constexpr std::chrono::milliseconds kAgentPatience{100};

using AgentService = BatchService<float, std::int64_t>;

// The policy of the peer's benchmark: 4-128-2, a softmax, and a draw. As there, it stores the data
// for learning.
class ServicePolicy {
 public:
  ServicePolicy() : network_(shape_, 1, true), parameters_(at::empty({shape_.size()})) {
    shape_.initialise(parameters_, 1);
  }

  void act(const AgentService& service, std::span<const int> clients) {
    const auto n = static_cast<std::int64_t>(clients.size());
    for (std::int64_t i = 0; i < n; ++i) {
      const auto observation = service.request(clients[static_cast<std::size_t>(i)]);
      for (std::int64_t f = 0; f < kObserved; ++f)
        input_[f * kPanel + i] = observation[static_cast<std::size_t>(f)];
    }
    network_.forward(parameters_.const_data_ptr<float>(), {.data = input_.data(), .stride = 0},
                     {.from = 0, .to = 1, .columns = n});
    for (std::int64_t i = 0; i < n; ++i) {
      const int client = clients[static_cast<std::size_t>(i)];
      service.reply(client)[0] = draw(i, service.request(client));
    }
  }

 private:
  struct Saved {
    std::array<float, kObserved> observation;
    std::int64_t action;
    float log_prob;
  };

  std::int64_t draw(std::int64_t i, std::span<const float> observation) {
    const auto* out = network_.output();
    const float left = 1 / (1 + std::exp(out[kPanel + i] - out[i]));
    const bool right = rng_.uniform() >= left;
    auto& saved = saved_[next_++ % saved_.size()];
    std::ranges::copy(observation, saved.observation.begin());
    saved.action = right;
    saved.log_prob = std::log(right ? 1 - left : left);
    return right;
  }

  FlatMlp shape_{.widths = {kObserved, 128, 2}};
  PanelMlp network_;
  at::Tensor parameters_;
  std::array<float, kObserved * kPanel> input_{};
  std::array<Saved, 1000> saved_{};
  std::size_t next_ = 0;
  Rng rng_{1};
};

// Never returns. Steps a CartPole with the actions of the server, or of its own policy.
void observe(const AgentService& service, int number, bool alone, ClientCounts& counts) {
  const auto env = make_cart_pole()({.index = number});
  auto client = service.client(number);
  ServicePolicy own;
  auto* to = reinterpret_cast<std::byte*>(client.request().data());
  const auto* from = reinterpret_cast<const std::byte*>(client.reply().data());
  const StepOut out{.observation = ArraysOut({&to, 1}), .info = {}};
  env->reset(static_cast<std::uint64_t>(number), out);
  for (;;) {
    if (alone) {
      own.act(service, {&number, 1});
    } else {
      auto ticket = client.submit();
      while (!ticket.wait(kAgentPatience)) {
      }
    }
    if (env->step(ArraysIn({&from, 1}), out).episode_over()) env->reset({}, out);
    counts.add(number);
  }
}

}  // namespace

ServiceResult measure_agent(const ServiceFlags& flags) {
  AgentService service({.clients = flags.clients,
                        .request_length = kObserved,
                        .batch = flags.batched() ? flags.clients : 1});
  ClientCounts counts(flags.clients);
  ServicePolicy policy;
  WorkerGroup observers(flags.clients, [&](int client, WorkerStatus) {
    observe(service, client, flags.has_no_server(), counts);
  });
  const auto answer = [&](std::span<const int> clients) { policy.act(service, clients); };
  return measure_service(flags, counts, observers,
                         {.serve = [&] { return service.serve(answer, kAgentPatience); }});
}

}  // namespace shoal::cli
