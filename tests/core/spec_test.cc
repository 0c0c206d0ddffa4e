#include "shoal/core/spec.h"

#include <gtest/gtest.h>

namespace shoal {
namespace {

TEST(SpecTest, SizesAndNamesOfEveryType) {
  EXPECT_EQ(size_of(DType::kUInt8), sizeof(std::uint8_t));
  EXPECT_EQ(size_of(DType::kBool), sizeof(bool));
  EXPECT_EQ(size_of(DType::kInt32), sizeof(std::int32_t));
  EXPECT_EQ(size_of(DType::kInt64), sizeof(std::int64_t));
  EXPECT_EQ(size_of(DType::kFloat32), sizeof(float));
  EXPECT_EQ(size_of(DType::kFloat64), sizeof(double));
  EXPECT_STREQ(name_of(DType::kUInt8), "uint8");
  EXPECT_STREQ(name_of(DType::kFloat64), "float64");
}

TEST(SpecTest, CountsElementsAndBytes) {
  EXPECT_EQ((ArraySpec{DType::kUInt8, {84, 84}}.bytes()), 84u * 84);
  EXPECT_EQ((ArraySpec{DType::kFloat64, {3, 5}}.bytes()), 120u);
  EXPECT_EQ((ArraySpec{DType::kInt32, {}}.count()), 1);  // a scalar
  EXPECT_EQ((ArraySpec{DType::kInt32, {4, 0}}.bytes()), 0u);
}

TEST(SpecTest, FieldsAreFoundByPositionAndName) {
  NamedSpecs specs{{"image", {DType::kUInt8, {2}}}, {"hand/pose", {DType::kFloat32, {7}}}};
  EXPECT_EQ(specs.size(), 2u);
  EXPECT_EQ(specs.name(1), "hand/pose");
  EXPECT_EQ(specs.at("hand/pose").count(), 7);
  EXPECT_FALSE(specs.contains("pose"));
  EXPECT_THROW(specs.at("pose"), std::out_of_range);
  EXPECT_EQ(NamedSpecs(ArraySpec{}).name(0), "");
}

TEST(SpecTest, ActionsAreStoredByKind) {
  const auto discrete = ActionSpec::discrete(6).array();
  EXPECT_EQ(discrete.dtype, DType::kInt64);
  EXPECT_TRUE(discrete.shape.empty());
  EXPECT_EQ(discrete.high, 5);

  const auto many =
      ActionSpec{.kind = ActionSpec::Kind::kMultiDiscrete, .choices = {3, 9, 2}}.array();
  EXPECT_EQ(many.dtype, DType::kInt64);
  EXPECT_EQ(many.shape, std::vector<std::int64_t>{3});
  EXPECT_EQ(many.high, 8);

  const auto box = ActionSpec::box(4, -2, 2).array();
  EXPECT_EQ(box.dtype, DType::kFloat32);
  EXPECT_EQ(box.shape, std::vector<std::int64_t>{4});
  EXPECT_EQ(box.low, -2);

  const auto bits = ActionSpec{.kind = ActionSpec::Kind::kMultiBinary, .dims = 5}.array();
  EXPECT_EQ(bits.dtype, DType::kBool);
  EXPECT_EQ(bits.shape, std::vector<std::int64_t>{5});
}

}  // namespace
}  // namespace shoal
