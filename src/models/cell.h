#pragma once

#include <cstdint>

#include "shoal/models/actor_critic.h"

namespace shoal {

// What a recurrent cell does between its two matrix products, W_ih x + b_ih and W_hh h + b_hh, as
// torch's LSTMCell and GRUCell define it: the same for learning and for acting. Every row is
// computed for itself.
//
// The state of one sequence is [parts, units]: h, and of an LSTM c behind it.
struct CellShape {
  MemoryKind kind = MemoryKind::kLstm;
  std::int64_t units = 0;

  std::int64_t gates() const {
    return kind == MemoryKind::kLstm ? 4 : 3;
  }  // LSTM: i f g o; GRU: r z n
  std::int64_t parts() const { return kind == MemoryKind::kLstm ? 2 : 1; }
};

// Dense rows, one a sequence.
struct CellRows {
  std::int64_t rows;
  float* gates;         // [rows, gates * units]: the product with x, then the gates' values
  const float* from_h;  // [rows, gates * units]: the product with h
  const float* before;  // [rows, parts * units]: the state
  float* after;         // likewise
  float* kept;          // [rows, units]: what backward needs besides: tanh c, or n's part of from_h
};
void cell_forward(const CellShape& shape, const CellRows& x);

// The gradients of what cell_forward() has read, from that of the state that follows.
struct CellGradients {
  std::int64_t rows;
  const float *gates, *before, *kept;  // as cell_forward() has left them
  float* state;   // [rows, parts * units]: of the state after; then of the one before it, but for
                  // what goes through from_h
  float* gate;    // [rows, gates * units]: of the product with x
  float* from_h;  // likewise with h; may be null for an LSTM, where it is the same
};
void cell_backward(const CellShape& shape, const CellGradients& x);

}  // namespace shoal
