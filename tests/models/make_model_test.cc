#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cmath>
#include <utility>

#include "shoal/core/error.h"
#include "shoal/models/actor_critic.h"
#include "tests/models/model_inputs.h"

namespace shoal {
namespace {

const ArraySpec kVector{.shape = {10}};
const ArraySpec kImage{.dtype = DType::kUInt8, .shape = {36, 36}, .stack = 4};

const ArraySpec& observation_for(const std::string& name) {
  return name == "mlp" ? kVector : kImage;
}

std::string message_of(const NamedSpecs& observation, const ModelOptions& options) {
  try {
    make_model(observation, 2, options, 1);
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

bool same_parameters(const ActorCriticModel& a, const ActorCriticModel& b) {
  const auto x = a.parameters(), y = b.parameters();
  return std::equal(x.begin(), x.end(), y.begin(), y.end(),
                    [](const auto& p, const auto& q) { return at::equal(p, q); });
}

// The weights as matrices have orthonormal rows, or columns if there are fewer of those, times the
// gain.
void expect_orthogonal(const std::string& name, const at::Tensor& parameter) {
  auto w = parameter.detach().flatten(1);
  if (w.size(0) > w.size(1)) w = w.t();
  const double gain = name.starts_with("policy_head")  ? 0.01
                      : name.starts_with("value_head") ? 1
                                                       : std::sqrt(2);
  const auto error = (w.mm(w.t()) / (gain * gain) - at::eye(w.size(0))).abs().max();
  EXPECT_LT(error.item<double>(), 1e-5) << name;
}

TEST(MakeModelTest, AnUnknownNameIsAnErrorThatNamesTheNearest) {
  EXPECT_NE(message_of(kVector, {.name = "mpl"}).find("'mlp'"), std::string::npos);
  EXPECT_NE(message_of(kVector, {.name = "nature_cnn"}).find("'nature-cnn'"), std::string::npos);
  EXPECT_NE(message_of(kVector, {.name = ""}), "");
}

TEST(MakeModelTest, KnowsTheModelsItNames) {
  for (const auto& name : model_names())
    EXPECT_NE(make_model(observation_for(name), 2, {.name = name}, 1), nullptr) << name;
}

TEST(MakeModelTest, NatureCnnRefusesWhatIsNotOneImage) {
  const ModelOptions cnn{.name = "nature-cnn"};
  const auto image = [](DType dtype, std::vector<std::int64_t> shape) {
    return ArraySpec{.dtype = dtype, .shape = std::move(shape)};
  };
  EXPECT_NE(message_of(kVector, cnn).find("set model.name to auto"), std::string::npos)
      << "does not say what to do";
  EXPECT_NE(message_of(image(DType::kFloat32, {84, 84}), cnn).find("float32"), std::string::npos);
  EXPECT_NE(message_of(image(DType::kUInt8, {84}), cnn), "");
  EXPECT_NE(message_of(image(DType::kUInt8, {2, 3, 84, 84}), cnn), "");
  EXPECT_NE(message_of({{"a", kImage}, {"b", kImage}}, cnn).find("2 observation fields"),
            std::string::npos);
  for (const std::int64_t small : {0, 1, 4, 8, 20, 35}) {
    EXPECT_NE(message_of(image(DType::kUInt8, {small, 84}), cnn).find("36"), std::string::npos)
        << small;
    EXPECT_NE(message_of(image(DType::kUInt8, {84, small}), cnn).find("36"), std::string::npos)
        << small;
  }
  EXPECT_EQ(message_of(image(DType::kUInt8, {36, 36}), cnn), "");
}

TEST(MakeModelTest, TheSeedDecidesTheParameters) {
  for (const auto& name : model_names()) {
    const auto make = [&](std::uint64_t seed) {
      return make_model(observation_for(name), 3, {.name = name}, seed);
    };
    const auto model = make(5);
    EXPECT_TRUE(same_parameters(*model, *make(5))) << name;
    EXPECT_FALSE(same_parameters(*model, *make(6))) << name;
  }
}

TEST(MakeModelTest, LayersOfTheSameSizeDiffer) {
  const auto model = make_model(kVector, 3, {}, 1);
  const auto p = model->named_parameters();
  EXPECT_FALSE(at::equal(p["policy0.weight"], p["value0.weight"]));
  EXPECT_FALSE(at::equal(p["policy1.weight"], p["value1.weight"]));
}

TEST(MakeModelTest, DisturbsNoOtherRandomNumbers) {
  for (const auto& name : model_names()) {
    torch::manual_seed(7);
    const auto expected = at::rand({4});
    torch::manual_seed(7);
    make_model(observation_for(name), 3, {.name = name}, 1);
    EXPECT_TRUE(at::equal(at::rand({4}), expected)) << name;
  }
}

TEST(MakeModelTest, InitialWeightsAreOrthogonalAndBiasesZero) {
  for (const auto& name : model_names()) {
    const auto model = make_model(observation_for(name), 3, {.name = name, .hidden = {24, 5}}, 1);
    for (const auto& item : model->named_parameters()) {
      if (item.value().dim() == 1) {
        EXPECT_EQ(item.value().abs().max().item<float>(), 0) << item.key();
      } else {
        expect_orthogonal(item.key(), item.value());
      }
    }
  }
}

// torch.nn draws weights and biases within 1 / sqrt(inputs); of a uniform distribution, the
// standard deviation is the bound divided by sqrt(3).
TEST(MakeModelTest, UniformWeightsAreThoseOfTorch) {
  for (const auto& [name, memory] :
       {std::pair{"mlp", MemoryKind::kNone}, std::pair{"mlp", MemoryKind::kGru},
        std::pair{"nature-cnn", MemoryKind::kNone}, std::pair{"multi-input", MemoryKind::kNone}}) {
    const ModelOptions options{
        .name = name, .initial_weights = InitialWeights::kUniform, .memory = memory};
    const auto make = [&](std::uint64_t seed) {
      return make_model(observation_for(options.name), 3, options, seed);
    };
    const auto model = make(1);
    EXPECT_TRUE(same_parameters(*model, *make(1))) << name;
    EXPECT_FALSE(same_parameters(*model, *make(2))) << name;
    const auto all = model->named_parameters();
    for (const auto& item : all) {
      const auto& key = item.key();
      if (key.starts_with("memory") || !key.ends_with(".weight")) continue;
      const auto &weight = item.value(), &bias = all[key.substr(0, key.size() - 6) + "bias"];
      const double bound = 1 / std::sqrt(weight[0].numel());
      EXPECT_LE(weight.abs().max().item<double>(), bound) << name << " " << key;
      EXPECT_GT(weight.abs().max().item<double>(), 0.9 * bound) << name << " " << key;
      EXPECT_LE(bias.abs().max().item<double>(), bound) << name << " " << key;
      EXPECT_GT(bias.abs().max().item<double>(), 0) << name << " " << key;
      if (weight.numel() > 1000) {
        EXPECT_NEAR(weight.std().item<double>(), bound / std::sqrt(3), 0.03 * bound) << key;
      }
    }
  }
}

}  // namespace
}  // namespace shoal
