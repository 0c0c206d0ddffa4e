#pragma once

#include <cstdint>

#include "shoal/models/actor_critic.h"

namespace shoal {

// The elementwise part of a recurrent cell, after its two matrix products, W_ih x + b_ih and W_hh h
// + b_hh, as in torch's LSTMCell and GRUCell. Learning and acting share it. Rows are independent.
//
// The state of one sequence is [parts, units]: h, and for an LSTM c after it.
struct CellShape {
  MemoryKind kind = MemoryKind::kLstm;
  std::int64_t units = 0;

  std::int64_t gates() const {
    return kind == MemoryKind::kLstm ? 4 : 3;
  }  // LSTM: i f g o; GRU: r z n
  std::int64_t parts() const { return kind == MemoryKind::kLstm ? 2 : 1; }
};

// Dense rows, one for each sequence.
struct CellRows {
  std::int64_t rows;
  float* gates;         // [rows, gates * units]: in: the product with x; out: the gates
  const float* from_h;  // [rows, gates * units]: the product with h
  const float* before;  // [rows, parts * units]: the state
  float* after;         // [rows, parts * units]: the next state
  float* kept;          // [rows, units]: also for backward: tanh c, or n's part of from_h
};
void cell_forward(const CellShape& shape, const CellRows& x);

// The gradients of the inputs of cell_forward(), from that of the next state.
struct CellGradients {
  std::int64_t rows;
  const float *gates, *before, *kept;  // as after cell_forward()
  float* state;   // [rows, parts * units]: in: of the next state; out: of the previous state,
                  // without the part through from_h
  float* gate;    // [rows, gates * units]: of the product with x
  float* from_h;  // of the product with h; may be null for an LSTM, where it equals `gate`
};
void cell_backward(const CellShape& shape, const CellGradients& x);

}  // namespace shoal
