#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <cstring>

#include "src/models/recurrent.h"
#include "src/models/run_model.h"

namespace shoal {

namespace {

void add_layer(MlpKernel& kernel, const at::Tensor& weight, const at::Tensor& bias) {
  const auto w = weight.detach().to(at::kCPU).contiguous();
  const auto b = bias.detach().to(at::kCPU).contiguous();
  kernel.add_layer(w.const_data_ptr<float>(), b.const_data_ptr<float>(), w.size(1), w.size(0),
                   false);
}

// The whole network row by row, in float32. Rows are independent.
class RowWiseRecurrentActing : public RecurrentActing {
 public:
  explicit RowWiseRecurrentActing(const RecurrentModel& model) : model_(model) { refresh(); }

  void refresh() override {
    for (auto* kernel : {&trunk_, &from_x_, &from_h_, &policy_, &value_}) kernel->clear();
    model_.trunk->add_layers(trunk_);
    add_layer(from_x_, model_.cell.weight_ih, model_.cell.bias_ih);
    add_layer(from_h_, model_.cell.weight_hh, model_.cell.bias_hh);
    add_layer(policy_, model_.policy->weight, model_.policy->bias);
    add_layer(value_, model_.value->weight, model_.value->bias);
  }

  bool rows_are_independent() const override { return true; }
  std::string description() const override {
    return fmt::format("row-wise kernel with memory, float32, {}", MlpKernel::instructions());
  }

  void run(const ModelIn& in, ModelOut& out) override {
    require_outputs(policy_.out(), out.policy.size(1));
    const auto inputs = model_.trunk->inputs(in.observation);
    const auto previous = model_.sees_previous ? model_.previous_of(in).contiguous() : at::Tensor();
    const auto state = in.state[0].contiguous();
    const Rows all{.inputs = inputs.const_data_ptr<float>(),
                   .in = inputs.size(1),
                   .previous = previous.defined() ? previous.const_data_ptr<float>() : nullptr,
                   .state = state.const_data_ptr<float>(),
                   .first = in.is_first.const_data_ptr<bool>(),
                   .policy = out.policy.data_ptr<float>(),
                   .value = out.value.data_ptr<float>(),
                   .next = out.state.empty() ? nullptr : out.state[0].data_ptr<float>()};
    at::parallel_for(0, inputs.size(0), kGrain, [&](std::int64_t from, std::int64_t to) {
      for (; from < to; from += kAtOnce) run_rows(all, from, std::min(kAtOnce, to - from));
    });
  }

 private:
  // Inputs and outputs of all rows, from row 0.
  struct Rows {
    const float* inputs;
    std::int64_t in;
    const float *previous, *state;
    const bool* first;
    float *policy, *value, *next;
  };
  // Work space for a chunk of rows.
  struct Scratch {
    void resize(const RowWiseRecurrentActing& a) {
      const auto fit = [](std::vector<float>& v, std::int64_t n) {
        v.resize(static_cast<std::size_t>(kAtOnce * n));
      };
      const auto units = a.model_.shape.units, parts = a.model_.shape.parts();
      fit(features, a.model_.trunk->width());
      fit(x, a.from_x_.in());
      fit(gates, a.from_x_.out());
      fit(from_h, a.from_h_.out());
      fit(h, units), fit(kept, units);
      fit(before, parts * units), fit(after, parts * units);
    }
    std::vector<float> features, x, gates, from_h, h, kept, before, after;
  };

  // Smallest number of rows for another thread: about 10 microseconds of work.
  static constexpr std::int64_t kGrain = 8;
  static constexpr std::int64_t kAtOnce = 24;  // rows that fit into the L1 cache

  void run_rows(const Rows& all, std::int64_t from, std::int64_t rows) const {
    thread_local Scratch s;
    s.resize(*this);
    read_inputs(all, from, rows, s);
    read_state(all, from, rows, s);
    from_x_.run(s.x.data(), rows, s.gates.data());
    from_h_.run(s.h.data(), rows, s.from_h.data());
    cell_forward(model_.shape, {.rows = rows,
                                .gates = s.gates.data(),
                                .from_h = s.from_h.data(),
                                .before = s.before.data(),
                                .after = s.after.data(),
                                .kept = s.kept.data()});
    const auto units = model_.shape.units, width = model_.shape.parts() * units;
    for (std::int64_t r = 0; r < rows; ++r)
      std::copy_n(s.after.data() + r * width, units, s.h.data() + r * units);
    policy_.run(s.h.data(), rows, all.policy + from * policy_.out());
    value_.run(s.h.data(), rows, all.value + from);
    if (all.next) std::copy_n(s.after.data(), rows * width, all.next + from * width);
  }

  // Concatenates features and inputs from the previous step.
  void read_inputs(const Rows& all, std::int64_t from, std::int64_t rows, Scratch& s) const {
    const auto extra = model_.extra(), features = model_.trunk->width();
    const float* f = all.inputs + from * all.in;
    if (!trunk_.empty()) {
      trunk_.run(f, rows, s.features.data());
      f = s.features.data();
    }
    auto* x = s.x.data();
    for (std::int64_t r = 0; r < rows; ++r) {
      x = std::copy_n(f + r * features, features, x);
      if (extra == 0) continue;
      if (all.first[from + r])
        x = std::fill_n(x, extra, 0.0F);
      else
        x = std::copy_n(all.previous + (from + r) * extra, extra, x);
    }
  }

  void read_state(const Rows& all, std::int64_t from, std::int64_t rows, Scratch& s) const {
    const auto units = model_.shape.units, width = model_.shape.parts() * units;
    for (std::int64_t r = 0; r < rows; ++r) {
      auto* before = s.before.data() + r * width;
      if (all.first[from + r])
        std::fill_n(before, width, 0.0F);
      else
        std::copy_n(all.state + (from + r) * width, width, before);
      std::copy_n(before, units, s.h.data() + r * units);
    }
  }

  const RecurrentModel& model_;
  MlpKernel trunk_, from_x_, from_h_, policy_, value_;
};

}  // namespace

std::unique_ptr<RecurrentActing> RecurrentModel::make_recurrent_acting() const {
  if (!trunk->by_rows()) return nullptr;
  return std::make_unique<RowWiseRecurrentActing>(*this);
}

}  // namespace shoal
