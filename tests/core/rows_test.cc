#include "shoal/core/rows.h"

#include <gtest/gtest.h>

#include <set>

#include "shoal/core/error.h"

namespace shoal {
namespace {

constexpr std::int64_t kCount = 8, kEnvs = 3;

RolloutSpec full_spec() {
  return {.observation = {{"image", {DType::kUInt8, {5, 5}}}, {"pose", {DType::kFloat32, {2}}}},
          .action = {{"", {DType::kInt64, {}}}},
          .mask = {{"", {DType::kBool, {4}}}},
          .env_info = {{"score", {DType::kFloat32, {}}}},
          .agent_info = {{"value", {DType::kFloat32, {}}}}};
}

std::vector<Arena::Field> all_fields(const Rows& rows) {
  std::vector<Arena::Field> fields = {rows.reward, rows.terminated, rows.truncated, rows.is_first};
  for (const auto* group :
       {&rows.observation, &rows.action, &rows.mask, &rows.env_info, &rows.agent_info})
    for (const auto& [name, field] : *group) fields.push_back(field);
  return fields;
}

// Rows in which every byte of row r is r.
struct NumberedRows {
  NumberedRows() : rows(plan, full_spec(), kCount, kEnvs), arena(plan) {
    rows.attach(arena);
    for (const auto& field : all_fields(rows))
      for (std::int64_t r = 0; r < kCount; ++r)
        for (std::int64_t b = 0; b < kEnvs; ++b)
          for (auto& byte : rows.element(field, r, b)) byte = std::byte(r);
  }

  // The number in each row; -1 for a row in which the fields, environments or bytes differ.
  std::vector<int> numbers() const {
    std::vector<int> found;
    for (std::int64_t r = 0; r < kCount; ++r) {
      std::set<std::byte> bytes;
      for (const auto& field : all_fields(rows))
        for (std::int64_t b = 0; b < kEnvs; ++b)
          for (const auto byte : rows.element(field, r, b)) bytes.insert(byte);
      found.push_back(bytes.size() == 1 ? std::to_integer<int>(*bytes.begin()) : -1);
    }
    return found;
  }

  Arena::Plan plan;
  Rows rows;
  Arena arena;
};

TEST(RowsTest, PlansEveryFieldAsCountByEnvs) {
  const NumberedRows made;
  EXPECT_EQ(made.rows.observation.at("image").bytes(), 8u * 3 * 25);
  EXPECT_EQ(made.rows.observation.name(1), "pose");
  EXPECT_EQ(made.rows.action[0].lead, (std::vector<std::int64_t>{kCount, kEnvs}));
  EXPECT_EQ(made.rows.reward.spec.dtype, DType::kFloat32);
  EXPECT_EQ(made.rows.is_first.spec.dtype, DType::kBool);
  EXPECT_EQ(all_fields(made.rows).size(), 10u);
  EXPECT_EQ(made.numbers(), (std::vector<int>{0, 1, 2, 3, 4, 5, 6, 7})) << "fields overlap";
}

TEST(RowsTest, ElementsLieRowByRow) {
  const NumberedRows made;
  const auto& pose = made.rows.observation.at("pose");
  EXPECT_EQ(made.rows.element(pose, 2, 1).data(), made.arena.data(pose) + (2 * 3 + 1) * 8);
  made.rows.scalar<float>(made.rows.reward, 7, 2) = 1.5F;
  EXPECT_EQ(reinterpret_cast<float*>(made.arena.data(made.rows.reward))[23], 1.5F);
}

TEST(RowsTest, CopiesApart) {
  const NumberedRows made;
  made.rows.copy(5, 0, 3);
  EXPECT_EQ(made.numbers(), (std::vector<int>{5, 6, 7, 3, 4, 5, 6, 7}));
}

TEST(RowsTest, CopiesOverlappingDownwards) {
  const NumberedRows made;
  made.rows.copy(2, 0, 6);
  EXPECT_EQ(made.numbers(), (std::vector<int>{2, 3, 4, 5, 6, 7, 6, 7}));
}

TEST(RowsTest, CopiesOverlappingUpwardsRowByRow) {
  const NumberedRows made;
  made.rows.copy(0, 2, 5);
  EXPECT_EQ(made.numbers(), (std::vector<int>{0, 1, 0, 1, 0, 1, 0, 7}));
}

TEST(RowsTest, CopyingNothingOrOntoItselfChangesNothing) {
  const NumberedRows made;
  made.rows.copy(3, 3, 4);
  made.rows.copy(8, 0, 0);
  EXPECT_EQ(made.numbers(), (std::vector<int>{0, 1, 2, 3, 4, 5, 6, 7}));
}

TEST(RowsTest, RefusesToHoldNothing) {
  Arena::Plan plan;
  EXPECT_THROW(Rows(plan, full_spec(), 0, 4), Error);
  EXPECT_THROW(Rows(plan, full_spec(), 4, -1), Error);
}

}  // namespace
}  // namespace shoal
