#pragma once

#include <cstdint>

#include "src/core/divide_up.h"

namespace shoal {

// A panel holds kPanel rows of a batch side by side: feature f of row n is at [f * kPanel + n]. A
// layer multiplies a vector of rows by one weight after another, so weights are read in place,
// forward and backward, and rows are independent.
constexpr std::int64_t kPanel = 32;
constexpr std::int64_t panels_of(std::int64_t n) { return divide_up(n, kPanel); }

// c[m][n] = bias[m] + sum over k of a(m, k) * b[k][n], for n below `columns`; then ReLU, or 0 where
// `mask` is 0 or below. Sums run over k in order. As in ATen, NaN propagates. With several panels
// all are multiplied by the same a.
struct PanelProduct {
  const float* a;              // (m, k) is at [m * a_row + k * a_step]
  std::int64_t a_row, a_step;  //
  std::int64_t steps;          // k is below this, in each block
  std::int64_t blocks = 1;     // number of blocks of k
  std::int64_t a_block = 0;    // offset of a between blocks
  const float* b;              // [blocks * steps][kPanel]
  std::int64_t rows;           // m is below this
  float* c;
  std::int64_t c_row = kPanel;  // m is at c + m * c_row
  std::int64_t panels = 1;
  std::int64_t b_panel = 0, c_panel = 0;  // offsets between panels; those of mask are c_panel, too
  std::int64_t columns = kPanel;          // of the last panel
  const float* bias = nullptr;            // [rows]
  const float* mask = nullptr;            // [rows][kPanel]
  bool relu = false;
  bool add = false;  // to what c holds; requires whole panels, without bias
};

// The product of panel i alone.
inline PanelProduct panel_of(const PanelProduct& p, std::int64_t i) {
  PanelProduct one = p;
  one.b += i * p.b_panel;
  one.c += i * p.c_panel;
  if (p.mask) one.mask += i * p.c_panel;
  if (i + 1 < p.panels) one.columns = kPanel;
  one.panels = 1;
  return one;
}

// to[i] = sum over the panels and their n of g[n] * h[i][n].
struct PanelDots {
  const float* g;  // panels are g_panel apart
  std::int64_t g_panel;
  const float* h;  // [rows][kPanel], panels h_panel apart; null: sums g alone
  std::int64_t h_panel;
  std::int64_t panels, rows;
  float* to;
};

constexpr double kAdamBeta1 = 0.9, kAdamBeta2 = 0.999, kAdamEpsilon = 1e-8;

// One step of Adam on n numbers (Kingma and Ba, arXiv 1412.6980), and of the running average
// (Polyak) of the parameters. Squares of gradients must be finite in float32.
struct AdamStep {
  float rate;     // learning rate / (1 - beta1^t)
  float root;     // 1 / sqrt(1 - beta2^t)
  float epsilon;  //
  float tau;      // fraction by which the target moves to the new parameters
  std::int64_t n = 0;
  float *parameter = nullptr, *mean = nullptr, *square = nullptr;
  const float* gradient = nullptr;
  float* target = nullptr;  // null: none
};

// One panel of actions drawn from Gaussians and squashed to (-1, 1) by tanh.
struct PanelSquash {
  std::int64_t dims;
  const float* out;    // [2 * dims][kPanel]: means, logarithms of deviations
  const float* noise;  // [dims][kPanel]: standard normal
  float* action;       // [dims][kPanel]
  float* log_prob;     // [kPanel]
};

// The gradient of PanelSquash for the loss sum over n of scale[n] * alpha * log_prob[n], plus a
// loss with gradient of_action with respect to the action.
struct PanelSquashGradient {
  PanelSquash forward;
  const float* of_action;  // [dims][kPanel]
  const float* scale;      // [kPanel]
  float alpha;
  float* to;  // [2 * dims][kPanel]
};

// One panel of actions: tanh of the network output, plus noise clipped at `clip`.
struct PanelTanh {
  std::int64_t dims;
  const float* out;    // [dims][kPanel]
  const float* noise;  // [dims][kPanel]: standard normal; null: none
  float deviation, clip;
  float* action;  // [dims][kPanel]
};

// Bounds of the log deviation of a squashed Gaussian, as in Haarnoja et al.
constexpr float kLeastLogStd = -20, kMostLogStd = 2;

// The kernels for one instruction set.
struct PanelKernels {
  const char* instructions;
  void (*product)(const PanelProduct&);
  void (*dots)(const PanelDots&);
  void (*widen)(const std::uint8_t* from, std::int64_t n, float* to);
  // [rows][columns] to [columns][rows]
  void (*transpose)(const float* from, std::int64_t rows, std::int64_t columns, float* to);
  void (*adam)(const AdamStep&);
  void (*squash)(const PanelSquash&);
  void (*squash_gradient)(const PanelSquashGradient&);
  void (*tanh)(const PanelTanh&);
  // to[n] = of_action[n] * (1 - action[n]^2)
  void (*tanh_gradient)(const float* of_action, const float* action, std::int64_t n, float* to);
  // n standard normal numbers, a multiple of 4 * kPanel, determined by key and number.
  void (*normal)(std::uint64_t key, std::uint64_t number, std::int64_t n, float* to);
  // Multiplies and adds in registers, to measure peak throughput; returns the number of operations.
  std::int64_t (*multiply_add)(std::int64_t times);
};

// The fastest for this CPU: AVX-512, AVX2 with FMA, or baseline x86-64.
const PanelKernels& panel_kernels();
// All that run on this CPU, fastest first.
const PanelKernels* const* all_panel_kernels();  // ends with a null

}  // namespace shoal
