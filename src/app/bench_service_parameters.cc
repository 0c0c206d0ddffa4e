#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <span>
#include <vector>

#include "shoal/core/batch_service.h"
#include "shoal/models/flat_mlp.h"
#include "src/app/bench_service.h"

namespace shoal::app {
namespace {

constexpr std::int64_t kExamples = 32, kResNet50 = 25'557'032;
constexpr float kRate = 1e-3F;
constexpr std::chrono::milliseconds kTrainerPatience{100};

using Numbers = std::span<float>;
using GradientService = BatchService<float, float>;

// The network of the peer, and a gradient of the mean of the squares of what it puts out: the
// products of a forward and a backward pass, written to where the gradient is to be.
class MlpTrainer {
 public:
  static FlatMlp shape() { return {.widths = {256, 768, 1024, 10}}; }

  MlpTrainer(const float* parameters, Numbers gradient) {
    const auto mlp = shape();
    outputs_.push_back(at::randn({kExamples, mlp.in()}));
    for (std::size_t l = 0; l < mlp.layers(); ++l) {
      const auto in = mlp.widths[l], out = mlp.widths[l + 1];
      const auto part = [&](const float* from, std::int64_t offset, at::IntArrayRef sizes) {
        return at::from_blob(const_cast<float*>(from) + offset, sizes);
      };
      weights_.push_back(part(parameters, mlp.offset(l), {out, in}));
      biases_.push_back(part(parameters, mlp.bias_offset(l), {out}));
      weight_gradients_.push_back(part(gradient.data(), mlp.offset(l), {out, in}));
      bias_gradients_.push_back(part(gradient.data(), mlp.bias_offset(l), {out}));
      outputs_.push_back(at::empty({kExamples, out}));
      gradients_.push_back(at::empty({kExamples, out}));
    }
  }

  void work() {
    const auto layers = weights_.size();
    for (std::size_t l = 0; l < layers; ++l) {
      at::addmm_out(outputs_[l + 1], biases_[l], outputs_[l], weights_[l].t());
      if (l + 1 < layers) outputs_[l + 1].clamp_min_(0);
    }
    at::mul_out(gradients_.back(), outputs_.back(),
                at::scalar_tensor(2.0 / static_cast<double>(outputs_.back().numel())));
    for (auto l = layers; l-- > 0;) {
      at::mm_out(weight_gradients_[l], gradients_[l].t(), outputs_[l]);
      at::sum_out(bias_gradients_[l], gradients_[l], 0);
      if (l == 0) return;
      at::mm_out(gradients_[l - 1], gradients_[l], weights_[l]);
      gradients_[l - 1].mul_(outputs_[l] > 0);
    }
  }

 private:
  std::vector<at::Tensor> weights_, biases_, weight_gradients_, bias_gradients_;
  std::vector<at::Tensor> outputs_, gradients_;  // of each layer; its input before the first
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
  at::set_num_threads(1);
  const at::NoGradGuard no_grad;
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
