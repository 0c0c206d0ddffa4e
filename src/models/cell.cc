#include "src/models/cell.h"

#include "src/models/mlp_kernel.h"

namespace shoal {

namespace {

// sigmoid x = (1 + tanh(x / 2)) / 2.
void halve(float* x, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) x[i] *= 0.5F;
}
void sigmoid_of_tanh(float* x, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) x[i] = 0.5F + 0.5F * x[i];
}

void lstm_forward(std::int64_t units, const CellRows& x) {
  for (std::int64_t r = 0; r < x.rows; ++r) {
    auto *i = x.gates + r * 4 * units, *f = i + units, *g = f + units, *o = g + units;
    const auto* from_h = x.from_h + r * 4 * units;
    for (std::int64_t k = 0; k < 4 * units; ++k) i[k] += from_h[k];
    halve(i, 2 * units);
    halve(o, units);
    tanh_in_place(i, 4 * units);
    sigmoid_of_tanh(i, 2 * units);
    sigmoid_of_tanh(o, units);
    const auto* c_before = x.before + (2 * r + 1) * units;
    auto *h = x.after + 2 * r * units, *c = h + units, *tanh_c = x.kept + r * units;
    for (std::int64_t k = 0; k < units; ++k) tanh_c[k] = c[k] = f[k] * c_before[k] + i[k] * g[k];
    tanh_in_place(tanh_c, units);
    for (std::int64_t k = 0; k < units; ++k) h[k] = o[k] * tanh_c[k];
  }
}

void gru_forward(std::int64_t units, const CellRows& x) {
  for (std::int64_t row = 0; row < x.rows; ++row) {
    auto *r = x.gates + row * 3 * units, *z = r + units, *n = z + units;
    const auto* from_h = x.from_h + row * 3 * units;
    auto* n_from_h = x.kept + row * units;
    for (std::int64_t k = 0; k < 2 * units; ++k) r[k] += from_h[k];
    halve(r, 2 * units);
    tanh_in_place(r, 2 * units);
    sigmoid_of_tanh(r, 2 * units);
    for (std::int64_t k = 0; k < units; ++k) {
      n_from_h[k] = from_h[2 * units + k];
      n[k] += r[k] * n_from_h[k];
    }
    tanh_in_place(n, units);
    const auto* before = x.before + row * units;
    auto* h = x.after + row * units;
    for (std::int64_t k = 0; k < units; ++k) h[k] = (1 - z[k]) * n[k] + z[k] * before[k];
  }
}

void lstm_backward(std::int64_t units, const CellGradients& x) {
  for (std::int64_t r = 0; r < x.rows; ++r) {
    const auto *i = x.gates + r * 4 * units, *f = i + units, *g = f + units, *o = g + units;
    const auto *c_before = x.before + (2 * r + 1) * units, *tanh_c = x.kept + r * units;
    auto *dh = x.state + 2 * r * units, *dc = dh + units;
    auto *di = x.gate + r * 4 * units, *df = di + units, *dg = df + units, *d_o = dg + units;
    for (std::int64_t k = 0; k < units; ++k) {
      d_o[k] = dh[k] * tanh_c[k] * o[k] * (1 - o[k]);
      dc[k] += dh[k] * o[k] * (1 - tanh_c[k] * tanh_c[k]);
      di[k] = dc[k] * g[k] * i[k] * (1 - i[k]);
      df[k] = dc[k] * c_before[k] * f[k] * (1 - f[k]);
      dg[k] = dc[k] * i[k] * (1 - g[k] * g[k]);
      dc[k] *= f[k];
      dh[k] = 0;
    }
  }
}

void gru_backward(std::int64_t units, const CellGradients& x) {
  for (std::int64_t row = 0; row < x.rows; ++row) {
    const auto *r = x.gates + row * 3 * units, *z = r + units, *n = z + units;
    const auto *before = x.before + row * units, *n_from_h = x.kept + row * units;
    auto* dh = x.state + row * units;
    auto *dr = x.gate + row * 3 * units, *dz = dr + units, *dn = dz + units;
    auto *hr = x.from_h + row * 3 * units, *hz = hr + units, *hn = hz + units;
    for (std::int64_t k = 0; k < units; ++k) {
      dn[k] = dh[k] * (1 - z[k]) * (1 - n[k] * n[k]);
      dz[k] = hz[k] = dh[k] * (before[k] - n[k]) * z[k] * (1 - z[k]);
      dr[k] = hr[k] = dn[k] * n_from_h[k] * r[k] * (1 - r[k]);
      hn[k] = dn[k] * r[k];
      dh[k] *= z[k];
    }
  }
}

}  // namespace

void cell_forward(const CellShape& shape, const CellRows& x) {
  if (shape.kind == MemoryKind::kLstm)
    lstm_forward(shape.units, x);
  else
    gru_forward(shape.units, x);
}

void cell_backward(const CellShape& shape, const CellGradients& x) {
  if (shape.kind == MemoryKind::kLstm)
    lstm_backward(shape.units, x);
  else
    gru_backward(shape.units, x);
}

}  // namespace shoal
