#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <fmt/format.h>

#include "src/models/dense_layers.h"
#include "src/models/flat_input.h"
#include "src/models/mlp_kernel.h"
#include "src/models/models.h"
#include "src/models/run_model.h"
#include "src/models/trunk.h"

namespace shoal {

namespace {

// Hidden layers that read all fields.
class Mlp : public ActorCriticModel {
 public:
  Mlp(const NamedSpecs& observation, std::int64_t policy_size, const ModelOptions& options,
      const at::Generator& generator)
      : flat(observation),
        heads(make_dense_heads(*this, flat.width(), policy_size, options, generator)) {}

  ModelOut forward(const ModelIn& in) override { return heads.forward(flat(in.observation)); }

  std::unique_ptr<ActingNetwork> make_acting_network(Precision) const override;

  FlatInput flat;
  DenseHeads heads;
};

// The same network on the row-wise kernel. Always float32, because lower precision saves no time
// for small layers.
class MlpActing : public ActingNetwork {
 public:
  explicit MlpActing(const Mlp& model) : model_(model) { refresh(); }

  void refresh() override {
    for (auto* kernel : {&trunk_, &policy_, &value_}) kernel->clear();
    add_layers(trunk_, model_.heads.trunk, true);
    add_layers(policy_, model_.heads.policy, false);
    add_layers(value_, model_.heads.value, false);
  }

  bool rows_are_independent() const override { return true; }
  std::string description() const override {
    return fmt::format("row-wise kernel, float32, {}", MlpKernel::instructions());
  }

  void run(const Observations& observation, at::Tensor& policy, at::Tensor& value,
           std::int64_t) override {
    const auto x = model_.flat(observation).contiguous();
    const auto* input = x.const_data_ptr<float>();
    auto *policy_out = policy.data_ptr<float>(), *value_out = value.data_ptr<float>();
    const auto policy_size = policy.size(1), width = x.size(1);
    require_outputs(policy_.out(), policy_size);
    at::parallel_for(0, x.size(0), kGrain, [&](std::int64_t from, std::int64_t to) {
      run_rows(input + from * width, to - from, policy_out + from * policy_size, value_out + from);
    });
  }

 private:
  // Smallest number of rows for another thread: about 10 microseconds of work.
  static constexpr std::int64_t kGrain = 64;

  void run_rows(const float* x, std::int64_t rows, float* policy, float* value) const {
    thread_local std::vector<float> hidden;
    if (!trunk_.empty()) {
      hidden.resize(static_cast<std::size_t>(rows * trunk_.out()));
      trunk_.run(x, rows, hidden.data());
      x = hidden.data();
    }
    policy_.run(x, rows, policy);
    value_.run(x, rows, value);
  }

  const Mlp& model_;
  MlpKernel trunk_, policy_, value_;
};

std::unique_ptr<ActingNetwork> Mlp::make_acting_network(Precision) const {
  return std::make_unique<MlpActing>(*this);
}

// The hidden layers alone.
class MlpTrunk : public Trunk {
 public:
  MlpTrunk(const NamedSpecs& observation, const std::vector<std::int64_t>& hidden,
           const at::Generator& generator)
      : flat_(observation),
        width_(hidden.empty() ? flat_.width() : hidden.back()),
        layers_(make_dense_layers(*this, "", flat_.width(), hidden, generator)) {}

  std::int64_t width() const override { return width_; }
  at::Tensor forward(const Observations& observation) override {
    return through(layers_, flat_(observation), true);
  }
  bool by_rows() const override { return true; }
  at::Tensor inputs(const Observations& observation) const override {
    return flat_(observation).contiguous();
  }
  void add_layers(MlpKernel& kernel) const override { shoal::add_layers(kernel, layers_, true); }

 private:
  FlatInput flat_;
  std::int64_t width_;
  DenseLayers layers_;
};

}  // namespace

std::shared_ptr<Trunk> make_mlp_trunk(const NamedSpecs& observation, const ModelOptions& options,
                                      at::Generator generator) {
  require_units(options.hidden);
  return std::make_shared<MlpTrunk>(observation, options.hidden, generator);
}

std::shared_ptr<ActorCriticModel> make_mlp(const NamedSpecs& observation, std::int64_t policy_size,
                                           const ModelOptions& options, at::Generator generator) {
  return std::make_shared<Mlp>(observation, policy_size, options, generator);
}

}  // namespace shoal
