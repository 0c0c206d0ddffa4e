#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "shoal/models/acting_network.h"

namespace shoal {

// The recurrent cell of a model.
enum class MemoryKind : std::uint8_t {
  kNone,
  kLstm,  // Hochreiter and Schmidhuber, "Long short-term memory", 1997, with forget gates
  kGru,   // Cho et al., arXiv 1406.1078
};

struct ModelOptions {
  std::string name = "mlp";  // mlp | nature-cnn | a registered one
  // mlp: units of each hidden layer. The input is the concatenation of all fields; an int64 with
  // bounds that span at most 1024 values is categorical and one-hot encoded.
  std::vector<std::int64_t> hidden = {64, 64};
  bool shared_trunk = false;  // mlp: policy and value share the hidden layers
  // nature-cnn: precision of learning, and of acting by forward(), as on a GPU. Heads, parameters
  // and gradients are always float32. On a CPU without bfloat16 instructions (AVX512-BF16) kBf16
  // means float32.
  Precision precision = Precision::kFloat32;
  // mlp, nature-cnn: a recurrent cell between the layers and the heads. Policy and value then share
  // the layers.
  MemoryKind memory = MemoryKind::kNone;
  std::int64_t memory_size = 128;    // units of the cell
  bool memory_sees_previous = true;  // the cell also reads the previous action and reward
};

// All registered models.
std::vector<std::string> model_names();

}  // namespace shoal
