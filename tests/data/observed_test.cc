#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "shoal/data/samples.h"

namespace shoal {
namespace {

// Six frames of 2 x 3 pixels, none of them zero, and five observations of three frames each.
Observed stacked() {
  const auto frames = at::arange(1, 37, at::kByte).view({6, 2, 3});
  const auto index = at::tensor({-1, -1, 0, -1, 0, 1, 0, 1, 2, 3, 4, 5, 5, 5, -1}, at::kLong);
  return {frames, index.view({5, 3})};
}

Observed plain() { return {at::arange(20, at::kFloat).view({5, 2, 2}), {}}; }

// The slow reference: observation by observation, frame by frame.
at::Tensor by_hand(const Observed& o) {
  std::vector<at::Tensor> observations;
  for (std::int64_t n = 0; n < o.index.size(0); ++n) {
    std::vector<at::Tensor> stack;
    for (std::int64_t k = 0; k < o.index.size(1); ++k) {
      const auto frame = o.index[n][k].item<std::int64_t>();
      stack.push_back(frame < 0 ? at::zeros_like(o.data[0]) : o.data[frame]);
    }
    observations.push_back(at::stack(stack));
  }
  return at::stack(observations);
}

TEST(ObservedTest, DenseStacksFramesWithZerosForBlanks) {
  const auto o = stacked();
  EXPECT_TRUE(o.stacked());
  EXPECT_EQ(o.size(), 5);
  const auto dense = o.dense();
  EXPECT_EQ(dense.sizes(), (std::vector<std::int64_t>{5, 3, 2, 3}));
  EXPECT_EQ(dense.scalar_type(), at::kByte);
  EXPECT_TRUE(at::equal(dense, by_hand(o)));
  EXPECT_EQ(dense[0][0].max().item<int>(), 0) << "a blank is not zero";
  EXPECT_EQ(dense[4][2].max().item<int>(), 0) << "a blank is not zero";
}

TEST(ObservedTest, DenseLeavesTheFramesAsTheyWere) {
  const auto o = stacked();
  o.dense().zero_();
  EXPECT_TRUE(at::equal(o.data, stacked().data));
}

TEST(ObservedTest, DenseWorksForVectorsAndColourImages) {
  const auto index = stacked().index;
  for (const auto& frames : {at::randn({6, 4}), at::randn({6}), at::randn({6, 3, 2, 2})}) {
    const Observed o{frames, index};
    EXPECT_TRUE(at::equal(o.dense(), by_hand(o))) << frames.sizes();
  }
}

TEST(ObservedTest, DenseOfPlainObservationsIsTheData) {
  const auto o = plain();
  EXPECT_FALSE(o.stacked());
  EXPECT_EQ(o.size(), 5);
  EXPECT_TRUE(o.dense().is_same(o.data));
}

TEST(ObservedTest, SelectTakesRowsInTheOrderAskedFor) {
  const auto rows = at::tensor({4, 0, 0, 2}, at::kLong);
  for (const auto& o : {stacked(), plain()}) {
    const auto selected = o.select(rows);
    EXPECT_EQ(selected.size(), 4);
    EXPECT_EQ(selected.stacked(), o.stacked());
    EXPECT_TRUE(at::equal(selected.dense(), o.dense().index_select(0, rows)));
  }
}

TEST(ObservedTest, NarrowTakesARange) {
  for (const auto& o : {stacked(), plain()}) {
    const auto part = o.narrow(1, 3);
    EXPECT_EQ(part.size(), 3);
    EXPECT_EQ(part.stacked(), o.stacked());
    EXPECT_TRUE(at::equal(part.dense(), o.dense().narrow(0, 1, 3)));
  }
}

// Selecting observations must not copy pixels.
TEST(ObservedTest, ChoosingStackedObservationsCopiesNoFrames) {
  const auto o = stacked();
  EXPECT_TRUE(o.select(at::tensor({1, 2}, at::kLong)).data.is_same(o.data));
  EXPECT_TRUE(o.narrow(2, 2).data.is_same(o.data));
  const auto p = plain();
  EXPECT_EQ(p.narrow(1, 2).data.data_ptr(), p.data[1].data_ptr());
}

TEST(ObservedTest, ToMovesFramesAndIndex) {
  const auto moved = stacked().to(at::kMeta);
  EXPECT_TRUE(moved.data.is_meta());
  EXPECT_TRUE(moved.index.is_meta());
  const auto moved_plain = plain().to(at::kMeta);
  EXPECT_TRUE(moved_plain.data.is_meta());
  EXPECT_FALSE(moved_plain.stacked());
}

TEST(ObservedTest, SelectOnManyFieldsKeepsNamesAndOrder) {
  const auto rows = at::tensor({3, 1}, at::kLong);
  const auto selected = select(Observations{{"image", stacked()}, {"pose", plain()}}, rows);
  ASSERT_EQ(selected.size(), 2u);
  EXPECT_EQ(selected.name(0), "image");
  EXPECT_TRUE(at::equal(selected[0].dense(), stacked().dense().index_select(0, rows)));
  EXPECT_TRUE(at::equal(selected.at("pose").data, plain().data.index_select(0, rows)));

  const auto tensors = select(NamedTensors{{"z", at::arange(5)}, {"a", at::eye(5)}}, rows);
  ASSERT_EQ(tensors.size(), 2u);
  EXPECT_EQ(tensors.name(0), "z");
  EXPECT_TRUE(at::equal(tensors[0], rows));
  EXPECT_TRUE(at::equal(tensors.at("a"), at::eye(5).index_select(0, rows)));
  EXPECT_TRUE(select(NamedTensors{}, rows).empty());
}

}  // namespace
}  // namespace shoal
