#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cstring>
#include <memory>

#include "shoal/core/error.h"
#include "shoal/data/samples.h"

namespace shoal {
namespace {

TEST(ViewTest, AliasesTheArena) {
  Arena::Plan plan;
  plan.add({7}, {.dtype = DType::kUInt8});  // shifts the field under test
  const auto field = plan.add({3, 2}, {.dtype = DType::kFloat32, .shape = {4}});
  const Arena arena(plan);
  auto tensor = view(arena, field);
  EXPECT_EQ(tensor.sizes(), (std::vector<std::int64_t>{3, 2, 4}));
  EXPECT_EQ(tensor.scalar_type(), at::kFloat);
  EXPECT_TRUE(tensor.is_contiguous());
  EXPECT_EQ(tensor.data_ptr(), static_cast<void*>(arena.data(field)));

  tensor[2][1][3] = 5.5F;
  float read = 0;
  std::memcpy(&read, arena.element(field, 2 * 2 + 1).data() + 3 * sizeof read, sizeof read);
  EXPECT_EQ(read, 5.5F);
  const float written = -2;
  std::memcpy(arena.element(field, 1 * 2 + 0).data(), &written, sizeof written);
  EXPECT_EQ(tensor[1][0][0].item<float>(), -2);
}

TEST(ViewTest, ASingleNumberAddsNoDimension) {
  Arena::Plan plan;
  const auto field = plan.add({3, 2}, {.dtype = DType::kBool});
  const Arena arena(plan);
  EXPECT_EQ(view(arena, field).sizes(), (std::vector<std::int64_t>{3, 2}));
}

TEST(ViewTest, KeepsTheMappingAlive) {
  std::weak_ptr<void> region;
  at::Tensor part;
  {
    Arena::Plan plan;
    const auto field = plan.add({1000}, {.dtype = DType::kInt64});
    const Arena arena(plan);
    region = arena.owner();
    part = view(arena, field).narrow(0, 500, 500);
  }
  ASSERT_FALSE(region.expired()) << "the tensor points to memory that is gone";
  EXPECT_EQ(part.fill_(3).sum().item<std::int64_t>(), 1500);
  part.reset();
  EXPECT_TRUE(region.expired()) << "the mapping leaks";
}

TEST(ViewTest, EveryTypeHasItsTensorType) {
  for (const auto dtype : {DType::kUInt8, DType::kBool, DType::kInt32, DType::kInt64,
                           DType::kFloat32, DType::kFloat64}) {
    EXPECT_EQ(at::elementSize(torch_dtype(dtype)), size_of(dtype)) << name_of(dtype);
    EXPECT_EQ(at::isFloatingType(torch_dtype(dtype)),
              dtype == DType::kFloat32 || dtype == DType::kFloat64);
  }
  EXPECT_EQ(torch_dtype(DType::kUInt8), at::kByte);
  EXPECT_EQ(torch_dtype(DType::kBool), at::kBool);
  EXPECT_THROW(torch_dtype(static_cast<DType>(99)), Error);
}

}  // namespace
}  // namespace shoal
