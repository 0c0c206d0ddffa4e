#include "src/models/unroll.h"

#include <ATen/ATen.h>
#include <ATen/TracerMode.h>
#include <torch/csrc/autograd/custom_function.h>

#include <utility>

namespace shoal {

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::tensor_list;

// Sets the rows [n, width] to zero where an episode starts.
void forget(float* rows, std::int64_t width, const bool* first, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i)
    if (first[i]) std::fill_n(rows + i * width, width, 0.0F);
}

// Sizes of time-major tensors.
struct Steps {
  std::int64_t time, n;
  // Step t of a tensor [time (+ 1), n, width].
  float* at(const at::Tensor& tensor, std::int64_t t) const {
    return tensor.data_ptr<float>() + t * n * tensor.size(-1);
  }
};

// The loop over time after the products with x, with a handwritten gradient.
class Loop : public torch::autograd::Function<Loop> {
 public:
  // Returns h and the last state.
  static tensor_list forward(AutogradContext* context, const at::Tensor& gates_of_x,
                             const at::Tensor& weight_hh, const at::Tensor& bias_hh,
                             const at::Tensor& state, const at::Tensor& first, std::int64_t kind) {
    const CellShape shape{static_cast<MemoryKind>(kind), weight_hh.size(1)};
    const auto n = state.size(0), units = shape.units, width = shape.parts() * units;
    const Steps steps{gates_of_x.size(0) / n, n};
    const auto gates = gates_of_x.clone();
    const auto from_h = at::empty({n, shape.gates() * units}, gates.options());
    const auto h = at::empty({steps.time * n, units}, gates.options());
    const auto kept = at::empty_like(h);
    // Row t: the state before step t, zeros where it is reset.
    const auto states = at::empty({steps.time + 1, n, width}, gates.options());
    states[0].copy_(state.flatten(1));
    const auto transposed = weight_hh.t();
    const auto* starts = first.const_data_ptr<bool>();
    auto product = from_h;
    for (std::int64_t t = 0; t < steps.time; ++t) {
      forget(steps.at(states, t), width, starts + t * n, n);
      at::addmm_out(product, bias_hh, states[t].narrow(1, 0, units), transposed);
      auto* after = steps.at(states, t + 1);
      cell_forward(shape, {.rows = n,
                           .gates = steps.at(gates, t),
                           .from_h = from_h.const_data_ptr<float>(),
                           .before = steps.at(states, t),
                           .after = after,
                           .kept = steps.at(kept, t)});
      auto* to = steps.at(h, t);
      for (std::int64_t i = 0; i < n; ++i) std::copy_n(after + i * width, units, to + i * units);
    }
    context->save_for_backward({gates, weight_hh, states, kept, first});
    context->saved_data["kind"] = kind;
    const auto last = states[steps.time].view({n, shape.parts(), units}).clone();
    context->mark_non_differentiable({last});
    return {h, last};
  }

  static tensor_list backward(AutogradContext* context, tensor_list gradient) {
    const auto saved = context->get_saved_variables();
    const auto &gates = saved[0], &weight_hh = saved[1], &states = saved[2], &kept = saved[3];
    const CellShape shape{static_cast<MemoryKind>(context->saved_data["kind"].toInt()),
                          weight_hh.size(1)};
    const auto n = states.size(1), units = shape.units, width = states.size(2);
    const Steps steps{states.size(0) - 1, n};
    const auto of_h = gradient[0].contiguous();
    const auto of_x = at::empty_like(gates);
    const bool same = shape.kind == MemoryKind::kLstm;
    const auto of_from_h = same ? of_x : at::empty_like(gates);
    const auto of_state = at::zeros({n, width}, gates.options());
    auto h_part = of_state.narrow(1, 0, units);
    const auto* starts = saved[4].const_data_ptr<bool>();
    for (auto t = steps.time - 1; t >= 0; --t) {
      auto* state = of_state.data_ptr<float>();
      const auto* more = steps.at(of_h, t);
      for (std::int64_t i = 0; i < n; ++i)
        for (std::int64_t k = 0; k < units; ++k) state[i * width + k] += more[i * units + k];
      cell_backward(shape, {.rows = n,
                            .gates = steps.at(gates, t),
                            .before = steps.at(states, t),
                            .kept = steps.at(kept, t),
                            .state = state,
                            .gate = steps.at(of_x, t),
                            .from_h = same ? nullptr : steps.at(of_from_h, t)});
      if (t == 0) break;  // the gradient of the initial state is not needed
      h_part.addmm_(of_from_h.narrow(0, t * n, n), weight_hh);
      forget(state, width, starts + t * n, n);
    }
    const auto before = states.narrow(0, 0, steps.time).flatten(0, 1).narrow(1, 0, units);
    return {of_x, at::mm(of_from_h.t(), before), of_from_h.sum(0), {}, {}, {}};
  }
};

// A cell of operations that exports know, on state (h, c); a GRU has no c.
std::pair<at::Tensor, at::Tensor> traced_cell(const CellShape& shape, const CellWeights& w,
                                              const at::Tensor& x,
                                              const std::pair<at::Tensor, at::Tensor>& state) {
  const auto& [h, c] = state;
  const auto from_x = at::linear(x, w.weight_ih, w.bias_ih);
  const auto from_h = at::linear(h, w.weight_hh, w.bias_hh);
  const auto part = [&](const at::Tensor& gates, std::int64_t i) {
    return gates.narrow(1, i * shape.units, shape.units);
  };
  const auto sum = [&](std::int64_t i) { return part(from_x, i) + part(from_h, i); };
  if (shape.kind == MemoryKind::kLstm) {
    const auto after = sum(1).sigmoid() * c + sum(0).sigmoid() * sum(2).tanh();
    return {sum(3).sigmoid() * after.tanh(), after};
  }
  const auto fresh = (part(from_x, 2) + sum(0).sigmoid() * part(from_h, 2)).tanh();
  return {fresh + sum(1).sigmoid() * (h - fresh), c};
}

Unrolled by_cells(const CellShape& shape, const CellWeights& w, const at::Tensor& x,
                  const at::Tensor& state, const at::Tensor& first) {
  const auto n = state.size(0), time = x.size(0) / n;
  // -1 instead of n: an export that traces this takes any n.
  const auto stays = first.logical_not().to(x.scalar_type()).view({time, -1, 1});
  const auto steps = x.view({time, -1, x.size(1)});
  auto h = state.select(1, 0), c = state.select(1, -1);
  std::vector<at::Tensor> all;
  for (std::int64_t t = 0; t < time; ++t) {
    h = h * stays[t];
    if (at::tracer::impl::is_dispatch_enabled())
      std::tie(h, c) = traced_cell(shape, w, steps[t], {h, c * stays[t]});
    else if (shape.kind == MemoryKind::kLstm)
      std::tie(h, c) = at::lstm_cell(steps[t], {h, c * stays[t]}, w.weight_ih, w.weight_hh,
                                     w.bias_ih, w.bias_hh);
    else
      h = at::gru_cell(steps[t], h, w.weight_ih, w.weight_hh, w.bias_ih, w.bias_hh);
    all.push_back(h);
  }
  const auto last = shape.kind == MemoryKind::kLstm ? at::stack({h, c}, 1) : h.unsqueeze(1);
  return {at::cat(all), last.detach()};
}

}  // namespace

Unrolled unroll(const CellShape& shape, const CellWeights& w, const at::Tensor& x,
                const at::Tensor& state, const at::Tensor& first) {
  const bool traced = at::tracer::impl::is_dispatch_enabled();
  if (!x.is_cpu() || x.scalar_type() != at::kFloat || traced)
    return by_cells(shape, w, x, state, first);
  const auto out =
      Loop::apply(at::linear(x, w.weight_ih, w.bias_ih), w.weight_hh, w.bias_hh, state.contiguous(),
                  first.contiguous(), static_cast<std::int64_t>(shape.kind));
  return {out[0], out[1]};
}

}  // namespace shoal
