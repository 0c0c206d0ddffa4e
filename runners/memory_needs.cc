#include "runners/memory_needs.h"

#include <fmt/format.h>

#include <array>

#include "shoal/core/arena.h"
#include "shoal/core/error.h"
#include "shoal/core/text.h"

namespace shoal {
namespace {

// Numbers that a network stores: weights, and outputs of its layers for one observation.
struct NetworkSize {
  double weights = 0, outputs = 0;
};

NetworkSize mlp_size(double inputs, const ModelOptions& model) {
  NetworkSize size{.outputs = inputs};
  for (const auto units : model.hidden) {
    size.weights += inputs * static_cast<double>(units);
    size.outputs += inputs = static_cast<double>(units);
  }
  const double trunks = model.shared_trunk ? 1 : 2;
  return {size.weights * trunks, size.outputs * trunks};
}

// For an input of height x width x channels; the layers of Mnih et al. (2015).
NetworkSize nature_cnn_size(double height, double width, double channels) {
  NetworkSize size{.outputs = height * width * channels};
  for (const auto& [filter, stride, filters] :
       {std::array{8.0, 4.0, 32.0}, {4.0, 2.0, 64.0}, {3.0, 1.0, 64.0}}) {
    height = (height - filter) / stride + 1, width = (width - filter) / stride + 1;
    size.outputs += height * width * filters;
  }
  size.weights = height * width * 64 * 512;
  return size;
}

// Gates that read the features and their own outputs.
NetworkSize cell_size(double features, const ModelOptions& model) {
  if (model.memory == MemoryKind::kNone) return {};
  const double gates = model.memory == MemoryKind::kLstm ? 4 : 3;
  const auto units = static_cast<double>(model.memory_size);
  return {.weights = gates * units * (features + units), .outputs = (gates + 4) * units};
}

NetworkSize layers_size(const Config& config, const EnvSpec& env) {
  double inputs = 0;
  for (const auto& [name, spec] : env.observation)
    inputs += static_cast<double>(spec.count() * spec.stack);
  const auto& shape = env.observation[0].shape;
  if (config.model.name != "nature-cnn" || shape.size() < 2) return mlp_size(inputs, config.model);
  const auto height = static_cast<double>(shape[shape.size() - 2]),
             width = static_cast<double>(shape.back());
  return nature_cnn_size(height, width, inputs / (height * width));
}

NetworkSize network_size(const Config& config, const EnvSpec& env) {
  const auto& model = config.model;
  const auto layers = layers_size(config, env);
  auto features = layers.outputs;
  if (model.name == "nature-cnn")
    features = 512;
  else if (!model.hidden.empty())
    features = static_cast<double>(model.hidden.back());
  const auto cell = cell_size(features, model);
  return {layers.weights + cell.weights, layers.outputs + cell.outputs};
}

// Otherwise the kernel would kill the process for lack of memory.
void require_fits(double numbers, const std::string& what) {
  const double bytes = numbers * sizeof(float), available = static_cast<double>(available_memory());
  require(bytes < available, "{} needs {}, and {} are available", what, bytes_text(bytes),
          bytes_text(available));
}

}  // namespace

// Weights, gradients, two moments of the optimizer, and the copy that acts.
void require_weights_fit(const Config& config, const EnvSpec& env) {
  require_fits(5 * network_size(config, env).weights,
               "the network (model.hidden, model.memory_size)");
}

// Outputs of all layers and their gradients; off-policy also the outputs for next observations.
void require_minibatch_fits(const Config& config, const EnvSpec& env) {
  const auto steps = algo_of(config).steps_at_once(run_options(config));
  const double copies = is_off_policy(config) ? 3 : 2;
  require_fits(copies * network_size(config, env).outputs * static_cast<double>(steps),
               fmt::format("learning from {} steps at once (a minibatch)", steps));
}

}  // namespace shoal
