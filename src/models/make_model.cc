#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>
#include <torch/utils.h>

#include <algorithm>
#include <cmath>

#include "shoal/core/error.h"
#include "shoal/core/text.h"
#include "src/core/registered.h"
#include "src/models/cnn_layers.h"
#include "src/models/models.h"

namespace shoal {

namespace {

// Restores the state of the global generator, from which torch's layers draw before they are
// initialised here.
class GlobalGeneratorKept {
 public:
  ~GlobalGeneratorKept() { generator_.set_state(state_); }

 private:
  at::Generator generator_ = at::detail::getDefaultCPUGenerator();
  at::Tensor state_ = generator_.get_state();
};

Registered<ModelFactory>& registered() {
  static Registered<ModelFactory> all;
  return all;
}

void draw_uniformly(const at::Tensor& weight, const at::Tensor& bias,
                    const at::Generator& generator) {
  const double inputs = static_cast<double>(weight.numel()) / static_cast<double>(weight.size(0));
  for (auto parameter : {weight, bias})
    parameter.uniform_(-1 / std::sqrt(inputs), 1 / std::sqrt(inputs), generator);
}

// Draws the layers and heads anew.
void draw_uniformly(const torch::nn::Module& model, const at::Generator& generator) {
  torch::NoGradGuard no_grad;
  for (const auto& module : model.modules(/*include_self=*/false)) {
    if (const auto* linear = module->as<torch::nn::Linear>())
      draw_uniformly(linear->weight, linear->bias, generator);
    if (const auto* convolution = module->as<torch::nn::Conv2d>())
      draw_uniformly(convolution->weight, convolution->bias, generator);
  }
}

std::shared_ptr<ActorCriticModel> make_builtin(const NamedSpecs& observation,
                                               std::int64_t policy_size,
                                               const ModelOptions& options,
                                               const Named<ActionSpec>& action,
                                               const at::Generator& generator) {
  if (options.memory != MemoryKind::kNone)
    return make_recurrent(observation, policy_size, options, action, generator);
  if (options.name == "mlp") return make_mlp(observation, policy_size, options, generator);
  if (options.name == "nature-cnn")
    return make_nature_cnn(observation, policy_size, options, generator);
  if (options.name == "multi-input")
    return make_multi_input(observation, policy_size, options, generator);
  return nullptr;
}

}  // namespace

std::vector<std::string> model_names() {
  std::vector<std::string> names{"auto", "mlp", "nature-cnn", "multi-input"};
  registered().append_names(names);
  return names;
}

void register_model(const std::string& name, ModelFactory make) {
  registered().add("a model", name, std::move(make), model_names());
}

std::string model_for(const NamedSpecs& observation, const ModelOptions& options) {
  if (options.name != "auto") return options.name;
  const auto pictures = std::ranges::count_if(
      observation, [](const auto& field) { return is_picture(field.second); });
  if (pictures == 0) return "mlp";
  const bool nature = options.cnn == CnnKind::kAuto || options.cnn == CnnKind::kNature;
  const bool fits = observation.size() == 1 && observation[0].dtype == DType::kUInt8 &&
                    fits_nature_cnn(observation[0]);
  return nature && fits ? "nature-cnn" : "multi-input";
}

std::shared_ptr<ActorCriticModel> make_model(const NamedSpecs& observation,
                                             std::int64_t policy_size, const ModelOptions& given,
                                             std::uint64_t seed, const Named<ActionSpec>& action) {
  auto options = given;
  options.name = model_for(observation, given);
  require(given.name != "auto" || options.name != "mlp" || options.precision == Precision::kFloat32,
          "model.precision: found bf16, but the observation has no picture, and its model, 'mlp', "
          "learns in float32; set it to float32");
  require(given.name != "auto" || options.name != "mlp" || options.cnn == CnnKind::kAuto,
          "model.cnn: found convolutions, but the observation has no picture; leave it auto");
  const GlobalGeneratorKept kept;
  auto generator = at::detail::createCPUGenerator(seed);
  if (auto model = make_builtin(observation, policy_size, options, action, generator)) {
    if (options.initial_weights == InitialWeights::kUniform) draw_uniformly(*model, generator);
    return model;
  }
  if (const auto* own = registered().find(options.name)) {
    torch::manual_seed(seed);
    return (*own)(observation, policy_size, options);
  }
  throw Error("unknown model '{}'; did you mean '{}'?", options.name,
              nearest(options.name, model_names()));
}

}  // namespace shoal
