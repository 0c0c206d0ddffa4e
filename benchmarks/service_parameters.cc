#include <algorithm>
#include <array>
#include <chrono>
#include <span>
#include <vector>

#include "benchmarks/service.h"
#include "shoal/core/rng.h"
#include "shoal/ipc/parameter_server.h"
#include "shoal/models/flat_mlp.h"
#include "src/models/panel_mlp.h"

namespace shoal::cli {
namespace {

constexpr std::int64_t kResNet50 = 25'557'032;
constexpr float kRate = 1e-3F;
constexpr std::chrono::milliseconds kTrainerPatience{100};

using Numbers = std::span<float>;

// The network of the peer's benchmark. Its gradient, of the mean square of the outputs for 32
// examples, is written directly to the trainer's gradient.
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
    // A single panel reads each weight once, so transposing the weights first would not pay off.
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

void sgd(std::size_t, Numbers parameters, std::span<const float> gradient) {
  for (std::size_t i = 0; i < gradient.size(); ++i) parameters[i] -= kRate * gradient[i];
}

std::vector<float> initial(const ServiceFlags& flags) {
  std::vector<float> all(
      static_cast<std::size_t>(flags.network == "mlp" ? MlpTrainer::shape().size() : kResNet50));
  for (std::size_t i = 0; i < all.size(); ++i)
    all[i] = static_cast<float>(i * 7919 % 1000) * 1e-4F - 0.05F;
  return all;
}

// Never returns.
void train(const ServiceFlags& flags, const ParameterServer& server, int number,
           ClientCounts& counts) {
  auto trainer = server.trainer(number);
  const auto parameters = trainer.parameters();
  const auto gradient = trainer.gradient();
  MlpTrainer mlp(parameters.data(), gradient);
  for (;; counts.add(number)) {
    if (flags.network == "mlp")
      mlp.work();
    else
      for (std::size_t i = 0; i < gradient.size(); ++i) gradient[i] = parameters[i];
    if (!flags.has_no_server()) trainer.push();
  }
}

}  // namespace

ServiceResult measure_parameters(const ServiceFlags& flags) {
  ParameterServer server(initial(flags),
                         {.trainers = flags.clients,
                          .asynchronous = flags.asynchronous(),
                          .most_stale = flags.max_staleness},
                         sgd);
  ClientCounts counts(flags.clients);
  WorkerGroup trainers(flags.clients,
                       [&](int client, WorkerStatus) { train(flags, server, client, counts); });
  auto result = measure_service(flags, counts, trainers,
                                {.serve = [&] { return server.serve(kTrainerPatience); },
                                 .in_vain = [&] { return server.left_out(); }});
  result.staleness = {
      .mean = server.mean_stale(), .most = server.most_stale(), .refused = server.left_out()};
  return result;
}

}  // namespace shoal::cli
