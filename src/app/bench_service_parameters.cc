#include <algorithm>
#include <array>
#include <chrono>
#include <span>
#include <vector>

#include "shoal/core/batch_service.h"
#include "shoal/core/rng.h"
#include "shoal/models/flat_mlp.h"
#include "src/app/bench_service.h"
#include "src/models/panel_mlp.h"

namespace shoal::app {
namespace {

constexpr std::int64_t kResNet50 = 25'557'032;
constexpr float kRate = 1e-3F;
constexpr std::chrono::milliseconds kTrainerPatience{100};

using Numbers = std::span<float>;
using GradientService = BatchService<float, float>;

// The network of the peer, and the gradient of the mean of the squares of what it puts out for 32
// examples, written where the trainer's gradient is to be.
class MlpTrainer {
 public:
  static FlatMlp shape() { return {.widths = {256, 768, 1024, 10}}; }

  MlpTrainer(const float* parameters, Numbers gradient)
      : network_(shape(), 1, true),
        parameters_(parameters),
        gradient_(gradient),
        input_(shape().in(), 1),
        input_rows_(shape().in(), 1) {
    Rng rng(1);
    for (std::int64_t i = 0; i < shape().in() * kPanel; ++i)
      input_.data[i] = static_cast<float>(rng.uniform(-1, 1));
    transpose_panels(input(), shape().in(), 1, kAll, input_rows_.data);
  }

  void work() {
    network_.forward(parameters_, input(), kAll);
    const auto outputs = shape().out() * kPanel;
    for (std::int64_t i = 0; i < outputs; ++i)
      network_.output_gradient()[i] = network_.output()[i] * 2 / static_cast<float>(outputs);
    // A single panel reads each weight once, which transposing them would do, too.
    network_.backward(parameters_, nullptr, kAll);
    network_.parameter_gradient(input(), input_rows_.data, 0, 1, gradient_.data());
  }

 private:
  static constexpr PanelRange kAll{.from = 0, .to = 1};
  PanelInput input() const { return {.data = input_.data, .stride = 0}; }

  PanelMlp network_;
  const float* parameters_;
  Numbers gradient_;
  PanelBuffer input_, input_rows_;
};

// Part `part` of `parts` of n numbers: where it begins.
std::size_t begin_of(std::size_t part, std::size_t parts, std::size_t n) {
  return n * part / parts;
}

// One step of SGD with the mean of all gradients, for the numbers [from, to). Sums stay in the
// first level of the cache.
void apply_mean(const GradientService& gradients, Numbers parameters, std::size_t from,
                std::size_t to) {
  constexpr std::size_t kBlock = 1024;
  std::array<float, kBlock> sum;
  const float rate = kRate / static_cast<float>(gradients.clients());
  for (auto begin = from; begin < to; begin += kBlock) {
    const auto n = std::min(kBlock, to - begin);
    std::copy_n(gradients.request(0).data() + begin, n, sum.data());
    for (int c = 1; c < gradients.clients(); ++c) {
      const auto* more = gradients.request(c).data() + begin;
      for (std::size_t i = 0; i < n; ++i) sum[i] += more[i];
    }
    for (std::size_t i = 0; i < n; ++i) parameters[begin + i] -= rate * sum[i];
  }
}

// A step of SGD with one gradient, and a copy for the one who sent it: the next may come while it
// is still reading.
void apply_one(std::span<const float> gradient, Numbers parameters, Numbers copy) {
  for (std::size_t i = 0; i < parameters.size(); ++i)
    copy[i] = parameters[i] -= kRate * gradient[i];
}

struct ParameterServer {
  explicit ParameterServer(const ServiceFlags& flags)
      : batched(flags.batched()),
        alone(flags.alone()),
        network(flags.network),
        size(network == "mlp" ? MlpTrainer::shape().size() : kResNet50),
        field(plan.add_bytes(static_cast<std::size_t>(size) * sizeof(float))),
        arena(plan),
        parameters(reinterpret_cast<float*>(arena.data(field)), static_cast<std::size_t>(size)),
        service({.clients = flags.clients,
                 .request_length = size,
                 .reply_length = batched || alone ? 0 : size,
                 .batch = batched ? flags.clients : 1}) {
    for (std::size_t i = 0; i < parameters.size(); ++i)
      parameters[i] = static_cast<float>(i * 7919 % 1000) * 1e-4F - 0.05F;
    for (int c = 0; c < flags.clients; ++c)
      std::ranges::copy_n(parameters.begin(), service.reply(c).size(), service.reply(c).begin());
  }

  int serve() {
    return service.serve(
        [&](std::span<const int> clients) {
          // In a batch each trainer does its part of the sum.
          if (!batched)
            apply_one(service.request(clients[0]), parameters, service.reply(clients[0]));
        },
        kTrainerPatience);
  }

  bool batched, alone;
  std::string network;
  std::int64_t size;
  Arena::Plan plan;
  Arena::Field field;
  Arena arena;
  Numbers parameters;
  GradientService service;
};

void ask(GradientService::Client& client) {
  auto ticket = client.submit();
  while (!ticket.wait(kTrainerPatience)) {
  }
}

// Never returns.
void train(ParameterServer& server, int number, ClientCounts& counts) {
  auto client = server.service.client(number);
  const float* parameters =
      client.reply().empty() ? server.parameters.data() : client.reply().data();
  const auto gradient = client.request();
  MlpTrainer mlp(parameters, gradient);
  const auto clients = static_cast<std::size_t>(server.service.clients());
  const auto own = static_cast<std::size_t>(number);
  const auto from = begin_of(own, clients, gradient.size()),
             to = begin_of(own + 1, clients, gradient.size());
  for (;; counts.add(number)) {
    if (server.network == "mlp")
      mlp.work();
    else
      for (std::size_t i = 0; i < gradient.size(); ++i) gradient[i] = parameters[i];
    if (server.alone) continue;
    ask(client);
    if (!server.batched) continue;
    apply_mean(server.service, server.parameters, from, to);
    ask(client);  // until all have done their part
  }
}

}  // namespace

ServiceResult measure_parameters(const ServiceFlags& flags) {
  ParameterServer server(flags);
  ClientCounts counts(flags.clients);
  WorkerGroup trainers(flags.clients,
                       [&](int client, WorkerStatus) { train(server, client, counts); });
  return measure_service(flags, counts, trainers, [&] { return server.serve(); });
}

}  // namespace shoal::app
