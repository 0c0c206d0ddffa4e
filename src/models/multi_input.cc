#include <ATen/ATen.h>

#include <string>

#include "shoal/core/error.h"
#include "src/models/cnn.h"
#include "src/models/dense_layers.h"
#include "src/models/flat_input.h"
#include "src/models/models.h"
#include "src/models/trunk.h"

namespace shoal {

namespace {

NamedSpecs without_pictures(const NamedSpecs& observation) {
  NamedSpecs others;
  for (const auto& [name, field] : observation)
    if (!is_picture(field)) others.add(name, field);
  return others;
}

// The features of all pictures, in the order of their fields, then the other fields.
class MultiInput : public torch::nn::Module {
 public:
  MultiInput(const NamedSpecs& observation, const ModelOptions& options,
             const at::Generator& generator)
      : others_(without_pictures(observation)), width_(others_.width()) {
    for (std::size_t i = 0; i < observation.size(); ++i) {
      if (!is_picture(observation[i])) {
        other_fields_.push_back(i);
        continue;
      }
      const auto name = "cnn" + std::to_string(cnns_.size());
      cnns_.push_back(register_module(name, make_cnn(observation[i], options, generator)));
      picture_fields_.push_back(i);
      width_ += cnn_features(observation[i], options);
    }
    require(!cnns_.empty(),
            "multi-input: found no picture among the {} fields of the observation, [H, W] of bytes "
            "or [C, H, W] with sides of at least 7; set model.name to auto",
            observation.size());
  }

  std::int64_t width() const { return width_; }

  at::Tensor forward(const Observations& observation) {
    std::vector<at::Tensor> parts;
    for (std::size_t i = 0; i < cnns_.size(); ++i)
      parts.push_back(cnns_[i]->forward(observation[picture_fields_[i]]));
    if (!other_fields_.empty()) {
      Observations others;
      for (const auto i : other_fields_) others.add(observation.name(i), observation[i]);
      parts.push_back(others_(others));
    }
    return parts.size() == 1 ? parts[0] : at::cat(parts, 1);
  }

 private:
  FlatInput others_;
  std::int64_t width_;
  std::vector<std::shared_ptr<Cnn>> cnns_;
  std::vector<std::size_t> picture_fields_, other_fields_;
};

class MultiInputModel : public ActorCriticModel {
 public:
  MultiInputModel(const NamedSpecs& observation, std::int64_t policy_size,
                  const ModelOptions& options, const at::Generator& generator)
      : input_(register_module("input",
                               std::make_shared<MultiInput>(observation, options, generator))),
        heads_(make_dense_heads(*this, input_->width(), policy_size, options, generator)) {}

  ModelOut forward(const ModelIn& in) override {
    return heads_.forward(input_->forward(in.observation));
  }

 private:
  std::shared_ptr<MultiInput> input_;
  DenseHeads heads_;
};

class MultiInputTrunk : public Trunk {
 public:
  MultiInputTrunk(const NamedSpecs& observation, const ModelOptions& options,
                  const at::Generator& generator)
      : input_(register_module("input",
                               std::make_shared<MultiInput>(observation, options, generator))),
        layers_(make_dense_layers(*this, "", input_->width(), options.hidden, generator)),
        width_(options.hidden.empty() ? input_->width() : options.hidden.back()) {}

  std::int64_t width() const override { return width_; }
  at::Tensor forward(const Observations& observation) override {
    return through(layers_, input_->forward(observation), true);
  }

 private:
  std::shared_ptr<MultiInput> input_;
  DenseLayers layers_;
  std::int64_t width_;
};

}  // namespace

std::shared_ptr<ActorCriticModel> make_multi_input(const NamedSpecs& observation,
                                                   std::int64_t policy_size,
                                                   const ModelOptions& options,
                                                   at::Generator generator) {
  return std::make_shared<MultiInputModel>(observation, policy_size, options, generator);
}

std::shared_ptr<Trunk> make_multi_input_trunk(const NamedSpecs& observation,
                                              const ModelOptions& options,
                                              at::Generator generator) {
  require_units(options.hidden);
  return std::make_shared<MultiInputTrunk>(observation, options, generator);
}

}  // namespace shoal
