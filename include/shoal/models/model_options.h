#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "shoal/core/spec.h"
#include "shoal/models/acting_network.h"

namespace shoal {

// The recurrent cell of a model.
enum class MemoryKind : std::uint8_t {
  kNone,
  kLstm,  // Hochreiter and Schmidhuber, "Long short-term memory", 1997, with forget gates
  kGru,   // Cho et al., arXiv 1406.1078
};

// The convolutions of multi-input.
enum class CnnKind : std::uint8_t {
  kAuto,    // kNature for pictures of at least 36 x 36 pixels, otherwise two small layers
  kNature,  // Mnih et al., "Human-level control through deep reinforcement learning", 2015
  kImpala,  // the residual network of Espeholt et al., arXiv 1802.01561
  kLayers,  // ModelOptions::cnn_layers
};
inline constexpr std::pair<const char*, CnnKind> kCnnKindNames[] = {{"auto", CnnKind::kAuto},
                                                                    {"nature", CnnKind::kNature},
                                                                    {"impala", CnnKind::kImpala},
                                                                    {"layers", CnnKind::kLayers}};
inline const auto& names_of(CnnKind) { return kCnnKindNames; }

// How the weights of a new model are drawn.
enum class InitialWeights : std::uint8_t {
  // Orthogonal matrices times sqrt(2), 0.01 for the policy's head and 1 for the value's (Saxe et
  // al., arXiv 1312.6120); biases are 0.
  kOrthogonal,
  // Weights and biases alike within +-1 / sqrt(inputs), as torch.nn has them. Features are a third
  // to a half as large as orthogonal matrices make them.
  kUniform,
};
inline constexpr std::pair<const char*, InitialWeights> kInitialWeightsNames[] = {
    {"orthogonal", InitialWeights::kOrthogonal}, {"uniform", InitialWeights::kUniform}};
inline const auto& names_of(InitialWeights) { return kInitialWeightsNames; }

struct ModelOptions {
  // mlp | nature-cnn | multi-input | a registered one | auto: nature-cnn or multi-input if there
  // are pictures, else mlp (see model_for()).
  std::string name = "mlp";
  // mlp: units of each hidden layer, with tanh (in DDPG, TD3 and SAC with ReLU). The input is the
  // concatenation of all fields; an int64 with bounds that span at most 1024 values is categorical
  // and one-hot encoded. multi-input: of each layer that reads the features of the pictures, and
  // beside them the other fields as mlp does.
  std::vector<std::int64_t> hidden = {64, 64};
  bool shared_trunk = false;  // mlp, multi-input: policy and value share the hidden layers
  // multi-input: each picture has convolutions of its own, and a layer of features after them.
  CnnKind cnn = CnnKind::kAuto;
  // kLayers: filters, size and stride of each layer, e.g. {32, 3, 1, 64, 3, 2}.
  std::vector<std::int64_t> cnn_layers = {};
  // nature-cnn, and the convolutions of multi-input: precision of learning, and of acting by
  // forward(), as on a GPU. Heads, parameters and gradients are always float32. On a CPU that
  // multiplies bfloat16 more slowly than float32 (all but those with AMX, and AMD's with
  // AVX512-BF16) kBf16 means float32.
  Precision precision = Precision::kFloat32;
  // mlp, nature-cnn, multi-input: of layers and heads; those of a recurrent cell are orthogonal.
  InitialWeights initial_weights = InitialWeights::kOrthogonal;
  // mlp, nature-cnn, multi-input: a recurrent cell between the layers and the heads. Policy and
  // value then share the layers.
  MemoryKind memory = MemoryKind::kNone;
  std::int64_t memory_size = 128;    // units of the cell
  bool memory_sees_previous = true;  // the cell also reads the previous action and reward
};

// All models that make_model() knows.
std::vector<std::string> model_names();

// The name of the model for observations, if ModelOptions::name is "auto": nature-cnn for one
// picture of bytes with at least 36 x 36 pixels, unless `cnn` asks for other convolutions;
// multi-input for other observations with a picture; otherwise mlp. A picture is an array [H, W] of
// bytes or [C, H, W] of any type, with sides of at least 7.
std::string model_for(const NamedSpecs& observation, const ModelOptions& options);

}  // namespace shoal
