#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "shoal/models/acting_network.h"
#include "shoal/models/flat_mlp.h"
#include "src/models/panel_bf16.h"
#include "src/models/panel_kernels.h"

namespace shoal {

// Panels [from, to) of a batch: what one thread works at.
struct PanelRange {
  std::int64_t from, to;
  std::int64_t columns = kPanel;  // of the last one; what lies beyond may be left as it is
  std::int64_t columns_of(std::int64_t panel) const { return panel + 1 < to ? kPanel : columns; }
};

// Memory for panels: whole blocks of [kPanel][kPanel], and one more to read beyond the end.
struct PanelBuffer {
  PanelBuffer() = default;
  PanelBuffer(std::int64_t features, std::int64_t panels);
  at::Tensor tensor;
  float* data = nullptr;  // its own: to ask for it takes time
};

// Where the panels of an input lie: the features of one panel one after the other, and so many
// numbers further the next panel.
struct PanelInput {
  const float* data;
  std::int64_t stride;
};

// Forward and backward pass of one FlatMlp over a batch in panels, written out by hand, in buffers
// that are made once. Threads may call it at once for panels of their own; results do not depend on
// how many there are.
class PanelMlp {
 public:
  // backward: there will be a way back. precision: of the products; float32 all the same on a CPU
  // that has no instructions for bf16, and for layers of few units.
  PanelMlp(const FlatMlp& shape, std::int64_t panels, bool backward,
           Precision precision = Precision::kFloat32);

  void forward(const float* parameters, const PanelInput& input, const PanelRange& range);
  // [panels][out][kPanel]
  float* output(std::int64_t panel = 0) const { return at(outputs_.back(), panel, mlp_.out()); }

  // [panels][out][kPanel], to be filled before backward().
  float* output_gradient(std::int64_t panel = 0) {
    return at(gradients_.back(), panel, mlp_.out());
  }
  // What backward() needs of these parameters beside them, [size()].
  void transpose_weights(const float* parameters, float* to) const;
  // The gradients of all hidden layers. transposed: null, where so few panels read the weights that
  // they are not worth transposing. learns: parameter_gradient() is to follow.
  void backward(const float* parameters, const float* transposed, const PanelRange& range,
                bool learns = true);
  // Instead of forward(): what hidden layers of another one put out for these columns, numbered
  // through all panels, becomes that of columns from panel range.from on.
  void take(const PanelMlp& other, const std::vector<std::int64_t>& columns,
            const PanelRange& range);
  // After backward(): that of the features [first, first + count) of the input, to
  // [panels][count][kPanel].
  void input_gradient(const float* parameters, std::int64_t first, std::int64_t count,
                      const PanelRange& range, float* to);

  // Part `part` of `parts` of the gradient of the parameters, [size()], from all panels.
  // input_rows: the input of the first layer transposed, [features / kPanel][panels *
  // kPanel][kPanel].
  void parameter_gradient(const PanelInput& input, const float* input_rows, std::int64_t part,
                          std::int64_t parts, float* to) const;
  // The parameters of which that is: some rows of each layer.
  struct Span {
    std::int64_t offset, count;
  };
  std::vector<Span> part_of(std::int64_t part, std::int64_t parts) const;

 private:
  static float* at(const PanelBuffer& buffer, std::int64_t panel, std::int64_t width) {
    return buffer.data + panel * width * kPanel;
  }
  void multiply(const PanelProduct& p) const;
  bool transposes(std::size_t l) const;
  void layer_gradient(std::size_t l, const PanelInput& input, const float* input_rows,
                      std::int64_t from, std::int64_t to_row, float* to) const;

  FlatMlp mlp_;
  std::int64_t panels_;
  const PanelKernels& kernels_ = panel_kernels();
  const PanelBf16* bf16_;                         // null: float32
  std::vector<PanelBuffer> outputs_, gradients_;  // of each layer, [panels][out][kPanel]
  std::vector<PanelBuffer> rows_;                 // outputs_ of hidden layers, transposed
};

// Blocks of [features][kPanel] become [features / kPanel][panels * kPanel][kPanel]. `from` must be
// readable up to whole blocks of kPanel features.
void transpose_panels(const PanelInput& from, std::int64_t features, std::int64_t panels,
                      const PanelRange& range, float* to);

}  // namespace shoal
