#pragma once

#include <ATen/core/Tensor.h>

#include <utility>

#include "src/models/cell.h"

namespace shoal {

// Weights in the layout of torch's LSTMCell and GRUCell.
struct CellWeights {
  at::Tensor weight_ih, weight_hh, bias_ih, bias_hh;
};

struct Unrolled {
  at::Tensor h;      // [time * sequences, units]
  at::Tensor state;  // [sequences, parts, units] after the last step, without gradients
};

// Unrolls a recurrent cell over sequences. x: [time * sequences, in], time-major; state:
// [sequences, parts, units] before the first step, a constant; first: [time * sequences] bool,
// where the state is reset before the step.
//
// In float32 on the CPU it is one autograd node, a loop over time with one product per step.
// Elsewhere it is a loop over torch's cells, whose steps are fused on CUDA.
Unrolled unroll(const CellShape& shape, const CellWeights& weights, const at::Tensor& x,
                const at::Tensor& state, const at::Tensor& first);

}  // namespace shoal
