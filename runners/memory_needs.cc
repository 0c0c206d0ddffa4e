#include "runners/memory_needs.h"

#include <fmt/format.h>

#include "shoal/core/arena.h"
#include "shoal/core/error.h"
#include "shoal/core/text.h"
#include "src/models/cnn_layers.h"

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

// Convolutions, and the features that read them.
NetworkSize cnn_size(const ArraySpec& picture, const ModelOptions& model) {
  const auto& shape = picture.shape;
  auto height = shape[shape.size() - 2], width = shape.back();
  NetworkSize size{.outputs = static_cast<double>(picture.count() * picture.stack)};
  std::int64_t filters = 1;
  for (const auto& layer : conv_layers(picture, model)) {
    height = side_after(layer, height), width = side_after(layer, width);
    filters = layer.filters;
    size.outputs += static_cast<double>(height * width * filters);
  }
  if (model.cnn == CnnKind::kImpala) {
    for (const auto block : kImpalaFilters) {
      constexpr double kOutputs = 7;  // before the maximum (four), and of the residual parts
      size.outputs += kOutputs * static_cast<double>(height * width * block);
      height = (height + 1) / 2, width = (width + 1) / 2;
      filters = block;
    }
  }
  size.weights = static_cast<double>(height * width * filters * cnn_features(picture, model));
  return size;
}

// Gates that read the features and their own outputs.
NetworkSize cell_size(double features, const ModelOptions& model) {
  if (model.memory == MemoryKind::kNone) return {};
  const double gates = model.memory == MemoryKind::kLstm ? 4 : 3;
  const auto units = static_cast<double>(model.memory_size);
  return {.weights = gates * units * (features + units), .outputs = (gates + 4) * units};
}

struct LayersSize {
  NetworkSize size;
  double features = 0;  // that a recurrent cell would read
};

LayersSize layers_size(const Config& config, const EnvSpec& env) {
  auto model = config.model;
  model.name = model_for(env.observation, config.model);
  const bool nature = model.name == "nature-cnn";
  if (nature) model.cnn = CnnKind::kNature;
  NetworkSize pictures;
  double inputs = 0;  // of the hidden layers
  for (const auto& [name, field] : env.observation) {
    if ((nature || model.name == "multi-input") && is_picture(field)) {
      const auto [weights, outputs] = cnn_size(field, model);
      pictures.weights += weights, pictures.outputs += outputs;
      inputs += static_cast<double>(cnn_features(field, model));
    } else {
      inputs += static_cast<double>(field.count() * field.stack);
    }
  }
  if (nature) return {pictures, inputs};
  const auto mlp = mlp_size(inputs, model);
  const auto features = model.hidden.empty() ? inputs : static_cast<double>(model.hidden.back());
  return {{pictures.weights + mlp.weights, pictures.outputs + mlp.outputs}, features};
}

NetworkSize network_size(const Config& config, const EnvSpec& env) {
  const auto layers = layers_size(config, env);
  const auto cell = cell_size(layers.features, config.model);
  return {layers.size.weights + cell.weights, layers.size.outputs + cell.outputs};
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
