#pragma once

#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>

#include <memory>

#include "shoal/models/acting_network.h"

namespace shoal {

struct NatureCnnLayers {
  torch::nn::Conv2d conv1, conv2, conv3;
  torch::nn::Linear hidden, policy, value;
  double pixel_range = 255;  // divides the first layer's weights: pixels stay bytes
};

// Acts with the current parameters of the layers, which it shares. Uses Shoal's kernels on CPUs
// with AVX2, and oneDNN elsewhere.
std::unique_ptr<ActingNetwork> make_nature_cnn_acting(const NatureCnnLayers& layers,
                                                      Precision precision);
std::unique_ptr<ActingNetwork> make_onednn_acting(const NatureCnnLayers& layers,
                                                  Precision precision);

}  // namespace shoal
