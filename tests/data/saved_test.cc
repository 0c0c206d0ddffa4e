#include "shoal/data/saved.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/support/message_of.h"

namespace shoal {
namespace {

NamedTensors stored() {
  return {{"agent/w", at::ones({4, 3})},
          {"agent/flag", at::ones({2}, at::kBool)},
          {"algo/step", at::ones({})}};
}

TEST(Saved, TensorsAreRestoredByNameNotByOrder) {
  auto flag = at::zeros({2}, at::kBool), weight = at::zeros({4, 3});
  restore_all(stored(), "agent/", {{"flag", flag}, {"w", weight}});
  EXPECT_TRUE(flag.all().item<bool>());
  EXPECT_EQ(weight.sum().item<float>(), 12);
}

TEST(Saved, WhatDoesNotFitIsNamedAndChangesNothing) {
  const auto message = [](const NamedTensors& targets) {
    return message_of([&] { restore_all(stored(), "agent/", targets); });
  };
  const auto weight = at::zeros({4, 3}), flag = at::zeros({2}, at::kBool);
  EXPECT_EQ(message({{"w", weight}}),
            "'agent/flag', Bool [2], was saved, expected no tensor with this name");
  EXPECT_EQ(message({{"w", weight}, {"flag", flag}, {"bias", at::zeros({3})}}),
            "the checkpoint has no 'agent/bias', expected Float [3]");
  EXPECT_EQ(message({{"w", at::zeros({3, 4})}, {"flag", flag}}),
            "'agent/w' was saved as Float [4, 3], expected Float [3, 4]");
  EXPECT_EQ(message({{"flag", flag}, {"w", at::zeros({4, 3}, at::kDouble)}}),
            "'agent/w' was saved as Float [4, 3], expected Double [4, 3]");
  EXPECT_EQ(weight.sum().item<float>(), 0);
  EXPECT_FALSE(flag.any().item<bool>());
}

TEST(Saved, NumbersThatAreNotFiniteAreFoundInEveryKindOfTensor) {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  for (const auto type : {at::kFloat, at::kDouble, at::kBFloat16}) {
    auto x = at::ones({3, 4}, type);
    const NamedTensors all{{"other", at::ones({2}, at::kLong)}, {"x", x}, {"turned", x.t()}};
    require_finite(all);
    x[1][2] = kNan;
    EXPECT_EQ(message_of([&] { require_finite(all); }), "'x' holds NaN, expected finite numbers");
    x[0][2] = -HUGE_VAL;
    EXPECT_EQ(message_of([&] {
                require_finite({{"turned", x.t()}});
              }),
              "'turned' holds -inf, expected finite numbers");
    EXPECT_EQ(message_of([&] {
                require_finite({{"column", x.select(1, 2)}});
              }),
              "'column' holds -inf, expected finite numbers");
    require_finite({{"other column", x.select(1, 1)}});
  }
}

}  // namespace
}  // namespace shoal
