#pragma once

#include <cstdint>

namespace shoal {

// Rows of a batch that lie side by side: in a panel, number n of feature f is at [f * kPanel + n].
// A layer then multiplies a vector of rows by one weight after the other: weights are read where
// they are, forward and backward, and rows do not depend on each other.
constexpr std::int64_t kPanel = 32;
constexpr std::int64_t panels_of(std::int64_t n) { return (n + kPanel - 1) / kPanel; }

// c[m][n] = bias[m] + sum over k of a(m, k) * b[k][n], for n below `columns`; then cut at 0, or set
// to 0 where `mask` is 0 or below. Sums run over k in order. As in ATen, NaN stays NaN.
struct PanelProduct {
  const float* a;              // (m, k) is at [m * a_row + k * a_step]
  std::int64_t a_row, a_step;  //
  std::int64_t steps;          // k is below this; and all of it again
  std::int64_t blocks = 1;     // so many times,
  std::int64_t a_block = 0;    // with a further on by this
  const float* b;              // [blocks * steps][kPanel]
  std::int64_t rows;           // m is below this
  float* c;
  std::int64_t c_row = kPanel;  // m is at c + m * c_row
  std::int64_t columns = kPanel;
  const float* bias = nullptr;  // [rows]
  const float* mask = nullptr;  // [rows][kPanel]
  bool relu = false;
};

// to[i] = sum over the panels and their n of g[n] * h[i][n].
struct PanelDots {
  const float* g;  // further on by g_panel in every panel
  std::int64_t g_panel;
  const float* h;  // [rows][kPanel], likewise; null: of the sums of g alone
  std::int64_t h_panel;
  std::int64_t panels, rows;
  float* to;
};

// One step of Adam on n numbers (Kingma and Ba, arXiv 1412.6980), and of the running average
// (Polyak) of the parameters.
struct AdamStep {
  float rate;     // learning rate / (1 - beta1^t)
  float root;     // 1 / sqrt(1 - beta2^t)
  float epsilon;  //
  float tau;      // how far targets go towards the new parameters
  std::int64_t n = 0;
  float *parameter = nullptr, *mean = nullptr, *square = nullptr;
  const float* gradient = nullptr;
  float* target = nullptr;  // null: there is none
};

// Of one panel: actions that are drawn from Gaussians and brought within (-1, 1) by tanh.
struct PanelSquash {
  std::int64_t dims;
  const float* out;    // [2 * dims][kPanel]: means, logarithms of deviations
  const float* noise;  // [dims][kPanel]: standard normal
  float* action;       // [dims][kPanel]
  float* log_prob;     // [kPanel]
};

// Its gradient: of the loss sum over n of scale[n] * alpha * log_prob[n], and of one that depends
// on the action.
struct PanelSquashGradient {
  PanelSquash forward;
  const float* of_action;  // [dims][kPanel]
  const float* scale;      // [kPanel]
  float alpha;
  float* to;  // [2 * dims][kPanel]
};

// Of one panel: actions that are tanh of what a network puts out, plus noise that is cut at `clip`.
struct PanelTanh {
  std::int64_t dims;
  const float* out;    // [dims][kPanel]
  const float* noise;  // [dims][kPanel]: standard normal; null: none
  float deviation, clip;
  float* action;  // [dims][kPanel]
};

// Of a squashed Gaussian the logarithm of the deviation is cut at these, as in Haarnoja et al.
constexpr float kLeastLogStd = -20, kMostLogStd = 2;

// The same for one set of instructions.
struct PanelKernels {
  const char* instructions;
  void (*product)(const PanelProduct&);
  void (*dots)(const PanelDots&);
  // [rows][columns] to [columns][rows]
  void (*transpose)(const float* from, std::int64_t rows, std::int64_t columns, float* to);
  void (*adam)(const AdamStep&);
  void (*squash)(const PanelSquash&);
  void (*squash_gradient)(const PanelSquashGradient&);
  void (*tanh)(const PanelTanh&);
  // to[n] = of_action[n] * (1 - action[n]^2)
  void (*tanh_gradient)(const float* of_action, const float* action, std::int64_t n, float* to);
  // n numbers, a multiple of 4 * kPanel, standard normal: the same for the same key and number.
  void (*normal)(std::uint64_t key, std::uint64_t number, std::int64_t n, float* to);
  // Multiplies and adds in registers, to measure what is possible; how many operations those were.
  std::int64_t (*multiply_add)(std::int64_t times);
};

// Those for this CPU: AVX-512, AVX2 with FMA, or what every x86-64 has.
const PanelKernels& panel_kernels();
// All that run on this CPU, the fastest first.
const PanelKernels* const* all_panel_kernels();  // ends with a null

}  // namespace shoal
