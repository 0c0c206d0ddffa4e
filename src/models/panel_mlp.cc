#include "src/models/panel_mlp.h"

#include <ATen/ATen.h>

#include <algorithm>

namespace shoal {

PanelBuffer::PanelBuffer(std::int64_t features, std::int64_t panels)
    : tensor(at::zeros({(panels_of(features) * panels + 1) * kPanel * kPanel}, at::kFloat)),
      data(tensor.data_ptr<float>()) {}

void transpose_panels(const PanelInput& from, std::int64_t features, std::int64_t panels,
                      const PanelRange& range, float* to) {
  const auto& kernels = panel_kernels();
  for (auto panel = range.from; panel < range.to; ++panel)
    for (std::int64_t f = 0; f < features; f += kPanel)
      kernels.transpose(from.data + panel * from.stride + f * kPanel, kPanel, kPanel,
                        to + (f * panels + panel * kPanel) * kPanel);
}

PanelMlp::PanelMlp(const FlatMlp& shape, std::int64_t panels, bool backward, Precision precision)
    : mlp_(shape), panels_(panels), bf16_(precision == Precision::kBf16 ? panel_bf16() : nullptr) {
  for (std::size_t l = 0; l < mlp_.layers(); ++l) {
    const auto width = mlp_.widths[l + 1];
    outputs_.emplace_back(width, panels);
    if (!backward) continue;
    gradients_.emplace_back(width, panels);
    if (l + 2 < mlp_.layers()) rows_.emplace_back(width, panels);
  }
}

bool PanelMlp::rounds(std::int64_t rows) const {
  constexpr std::int64_t kWorth = 8;  // below, rounding takes longer than it saves
  return bf16_ && rows >= kWorth;
}

void PanelMlp::multiply(std::int64_t rows, const PanelProduct& p) const {
  (rounds(rows) ? bf16_->product : kernels_.product)(p);
}

// Values are sums of many rewards, of which bfloat16 keeps too few digits.
void PanelMlp::multiply_precisely(std::int64_t rows, const PanelProduct& p) const {
  (rounds(rows) ? bf16_->precise_product : kernels_.product)(p);
}

void PanelMlp::forward(const float* parameters, const PanelInput& input, const PanelRange& range) {
  const float* x = input.data + range.from * input.stride;
  for (std::size_t l = 0; l < mlp_.layers(); ++l) {
    const auto in = mlp_.widths[l], out = mlp_.widths[l + 1];
    float* y = at(outputs_[l], range.from, out);
    multiply_precisely(out, {.a = parameters + mlp_.offset(l),
                             .a_row = in,
                             .a_step = 1,
                             .steps = in,
                             .b = x,
                             .rows = out,
                             .c = y,
                             .panels = range.count(),
                             .b_panel = l == 0 ? input.stride : in * kPanel,
                             .c_panel = out * kPanel,
                             .columns = range.columns,
                             .bias = parameters + mlp_.bias_offset(l),
                             .relu = l + 1 < mlp_.layers()});
    x = y;
  }
}

// Columns of a small layer are read as fast as rows; in a large layer each element of a column is
// on its own memory page. AMX reads rows.
bool PanelMlp::transposes(std::size_t l) const {
  constexpr std::int64_t kLarge = 16384;
  const bool reads_rows = bf16_ && bf16_ == panel_amx();
  return l > 0 && (reads_rows || mlp_.widths[l] * mlp_.widths[l + 1] >= kLarge);
}

void PanelMlp::transpose_weights(const float* parameters, float* to) const {
  for (std::size_t l = 0; l < mlp_.layers(); ++l)
    if (transposes(l))
      kernels_.transpose(parameters + mlp_.offset(l), mlp_.widths[l + 1], mlp_.widths[l],
                         to + mlp_.offset(l));
}

void PanelMlp::backward(const float* parameters, const float* transposed, const PanelRange& range,
                        bool learns) {
  for (auto l = mlp_.layers() - 1; l > 0; --l) {
    const auto in = mlp_.widths[l], out = mlp_.widths[l + 1];
    const bool rows = transposed && transposes(l);
    multiply(in, {.a = (rows ? transposed : parameters) + mlp_.offset(l),
                  .a_row = rows ? out : 1,
                  .a_step = rows ? 1 : in,
                  .steps = out,
                  .b = at(gradients_[l], range.from, out),
                  .rows = in,
                  .c = at(gradients_[l - 1], range.from, in),
                  .panels = range.count(),
                  .b_panel = out * kPanel,
                  .c_panel = in * kPanel,
                  .columns = range.columns,
                  .mask = at(outputs_[l - 1], range.from, in)});
  }
  for (std::size_t l = 0; learns && l < rows_.size(); ++l) {
    const auto width = mlp_.widths[l + 1];
    transpose_panels({at(outputs_[l], 0, width), width * kPanel}, width, panels_, range,
                     rows_[l].data);
  }
}

void PanelMlp::input_gradient(const float* parameters, std::int64_t first, std::int64_t count,
                              const PanelRange& range, float* to) {
  const auto in = mlp_.in(), out = mlp_.widths[1];
  multiply(count, {.a = parameters + first,
                   .a_row = 1,
                   .a_step = in,
                   .steps = out,
                   .b = at(gradients_[0], range.from, out),
                   .rows = count,
                   .c = to + range.from * count * kPanel,
                   .panels = range.count(),
                   .b_panel = out * kPanel,
                   .c_panel = count * kPanel,
                   .columns = range.columns});
}

void PanelMlp::take(const PanelMlp& other, const std::vector<std::int64_t>& columns,
                    const PanelRange& range) {
  for (std::size_t l = 0; l + 1 < mlp_.layers(); ++l) {
    const auto width = mlp_.widths[l + 1];
    for (std::size_t begin = 0; begin < columns.size();) {
      // A run of columns within one panel of both source and destination.
      const auto source = columns[begin] / kPanel, place = static_cast<std::int64_t>(begin);
      auto end = begin + 1;
      while (end < columns.size() && columns[end] / kPanel == source && end % kPanel != 0) ++end;
      std::int32_t column[kPanel];
      const auto count = end - begin;
      for (std::size_t j = 0; j < count; ++j)
        column[j] = static_cast<std::int32_t>(columns[begin + j] % kPanel);
      const float* from = at(other.outputs_[l], source, width);
      float* to = at(outputs_[l], range.from + place / kPanel, width) + place % kPanel;
      for (std::int64_t row = 0; row < width; ++row, from += kPanel, to += kPanel)
        for (std::size_t j = 0; j < count; ++j) to[j] = from[column[j]];
      begin = end;
    }
  }
}

void PanelMlp::parameter_gradient(const PanelInput& input, const float* input_rows,
                                  std::int64_t part, std::int64_t parts, float* to) const {
  for (std::size_t l = 0; l < mlp_.layers(); ++l) {
    const auto out = mlp_.widths[l + 1];
    layer_gradient(l, input, input_rows, out * part / parts, out * (part + 1) / parts, to);
  }
}

std::vector<PanelMlp::Span> PanelMlp::part_of(std::int64_t part, std::int64_t parts) const {
  std::vector<Span> spans;
  for (std::size_t l = 0; l < mlp_.layers(); ++l) {
    const auto in = mlp_.widths[l], out = mlp_.widths[l + 1];
    const auto from = out * part / parts, rows = out * (part + 1) / parts - from;
    spans.push_back({mlp_.offset(l) + from * in, rows * in});
    spans.push_back({mlp_.bias_offset(l) + from, rows});
  }
  return spans;
}

// The parameter gradient of rows [from, to_row) of one layer.
void PanelMlp::layer_gradient(std::size_t l, const PanelInput& input, const float* input_rows,
                              std::int64_t from, std::int64_t to_row, float* to) const {
  const auto in = mlp_.widths[l], out = mlp_.widths[l + 1];
  const float* g = at(gradients_[l], 0, out);
  const bool last = l + 1 == mlp_.layers();
  // The last layer has few rows, for which sums over the batch are as fast as products.
  const PanelInput below = l == 0 ? input : PanelInput{at(outputs_[l - 1], 0, in), in * kPanel};
  for (auto row = from; row < to_row; ++row) {
    const float* of_row = g + row * kPanel;
    kernels_.dots({of_row, out * kPanel, nullptr, 0, panels_, 1, to + mlp_.bias_offset(l) + row});
    if (last)
      kernels_.dots({of_row, out * kPanel, below.data, below.stride, panels_, in,
                     to + mlp_.offset(l) + row * in});
  }
  if (last) return;
  const float* rows = l == 0 ? input_rows : rows_[l - 1].data;
  const auto panels = panels_of(in);
  multiply(out, {.a = g + from * kPanel,
                 .a_row = kPanel,
                 .a_step = 1,
                 .steps = kPanel,
                 .blocks = panels_,
                 .a_block = out * kPanel,
                 .b = rows,
                 .rows = to_row - from,
                 .c = to + mlp_.offset(l) + from * in,
                 .c_row = in,
                 .panels = panels,
                 .b_panel = panels_ * kPanel * kPanel,
                 .c_panel = kPanel,
                 .columns = in - (panels - 1) * kPanel});
}

}  // namespace shoal
