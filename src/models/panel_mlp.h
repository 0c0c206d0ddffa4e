#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "shoal/models/acting_network.h"
#include "shoal/models/flat_mlp.h"
#include "src/models/panel_bf16.h"
#include "src/models/panel_kernels.h"

namespace shoal {

// Panels [from, to) of a batch: the work of one thread.
struct PanelRange {
  std::int64_t from, to;
  std::int64_t columns = kPanel;  // used columns of the last panel; the rest may be left unset
  std::int64_t count() const { return to - from; }
};

// Memory for panels: whole blocks of [kPanel][kPanel], and one more because kernels read beyond the
// end.
struct PanelBuffer {
  PanelBuffer() = default;
  PanelBuffer(std::int64_t features, std::int64_t panels);
  at::Tensor tensor;
  float* data = nullptr;  // cached pointer of the tensor
};

// An input in panels: the features of a panel are consecutive, and panels are a fixed number of
// floats apart.
struct PanelInput {
  const float* data;
  std::int64_t stride;
};

// Handwritten forward and backward pass of one FlatMlp over a batch in panels, in preallocated
// buffers. Several threads may call it, each for its own panels; results do not depend on the
// number of threads.
class PanelMlp {
 public:
  // backward: allocate for backward(). precision: of the products; float32 nevertheless on a CPU
  // that multiplies float32 faster, and for layers with few units.
  PanelMlp(const FlatMlp& shape, std::int64_t panels, bool backward,
           Precision precision = Precision::kFloat32);

  void forward(const float* parameters, const PanelInput& input, const PanelRange& range);
  // [panels][out][kPanel]
  float* output(std::int64_t panel = 0) const { return at(outputs_.back(), panel, mlp_.out()); }

  // [panels][out][kPanel], to be filled before backward().
  float* output_gradient(std::int64_t panel = 0) {
    return at(gradients_.back(), panel, mlp_.out());
  }
  // Writes the transposed weights for backward() to `to`, [size()].
  void transpose_weights(const float* parameters, float* to) const;
  // The gradients of all hidden layers. transposed: from transpose_weights(), or null if too few
  // panels read the weights. learns: parameter_gradient() will follow.
  void backward(const float* parameters, const float* transposed, const PanelRange& range,
                bool learns = true);
  // Instead of forward(): copies the hidden outputs of another PanelMlp for these columns, counted
  // over all panels, to the columns from panel range.from on.
  void take(const PanelMlp& other, const std::vector<std::int64_t>& columns,
            const PanelRange& range);
  // After backward(): the gradient of features [first, first + count) of the input,
  // [panels][count][kPanel].
  void input_gradient(const float* parameters, std::int64_t first, std::int64_t count,
                      const PanelRange& range, float* to);

  // Part `part` of `parts` of the gradient of the parameters, [size()], from all panels.
  // input_rows: the input of the first layer transposed, [features / kPanel][panels *
  // kPanel][kPanel].
  void parameter_gradient(const PanelInput& input, const float* input_rows, std::int64_t part,
                          std::int64_t parts, float* to) const;
  // The parameters that a part covers: some rows of each layer.
  struct Span {
    std::int64_t offset, count;
  };
  std::vector<Span> part_of(std::int64_t part, std::int64_t parts) const;

 private:
  static float* at(const PanelBuffer& buffer, std::int64_t panel, std::int64_t width) {
    return buffer.data + panel * width * kPanel;
  }
  // rows: of the whole product, of which p is a part; the precision does not depend on the parts.
  bool rounds(std::int64_t rows) const;
  void multiply(std::int64_t rows, const PanelProduct& p) const;
  void multiply_precisely(std::int64_t rows, const PanelProduct& p) const;
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

// Transposes panels of [features][kPanel] to [features / kPanel][panels * kPanel][kPanel]. `from`
// must be readable up to whole blocks of kPanel features.
void transpose_panels(const PanelInput& from, std::int64_t features, std::int64_t panels,
                      const PanelRange& range, float* to);

}  // namespace shoal
