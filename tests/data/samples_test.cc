#include "shoal/data/samples.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

namespace shoal {
namespace {

at::Tensor number(int i) { return at::full({2, 3}, i, at::kFloat); }

// A rollout in which every tensor is filled with its own number.
Samples numbered() {
  Samples s;
  s.T = 2;
  s.B = 3;
  s.observation = {{"image", number(1)}, {"pose", number(2)}};
  s.observed = {{"image", {number(3), at::zeros({6, 4}, at::kLong)}}, {"pose", {number(4), {}}}};
  s.action = number(5);
  s.mask = number(6);
  s.agent_info = {{"log_prob", number(7)}, {"value", number(8)}};
  s.env_info = {{"score", number(9)}};
  s.initial_state = {{"h", number(10)}};
  s.reward = number(11);
  s.terminated = number(12);
  s.truncated = number(13);
  s.valid = number(14);
  s.is_first = number(15);
  s.previous_reward = number(16);
  s.previous_action = number(17);
  s.bootstrap_value = number(18);
  s.final_value = number(19);
  s.final_obs.t = {1};
  s.final_obs.b = {2};
  s.final_obs.observation = {{"pose", {number(20), {}}}};
  s.final_obs.mask = number(25);
  s.final_obs.state = {{"h", number(21)}};
  s.final_obs.value = number(22);
  s.first_tick = 23;
  s.policy_version = 24;
  return s;
}

std::vector<at::Tensor> all_tensors(const Samples& s) {
  std::vector<at::Tensor> all{s.reward,          s.terminated,  s.truncated,
                              s.valid,           s.is_first,    s.previous_reward,
                              s.bootstrap_value, s.final_value, s.final_obs.value};
  for (const auto* group :
       {&s.observation, &s.action, &s.mask, &s.agent_info, &s.env_info, &s.initial_state,
        &s.previous_action, &s.final_obs.mask, &s.final_obs.state})
    for (const auto& [name, tensor] : *group) all.push_back(tensor);
  for (const auto* group : {&s.observed, &s.final_obs.observation})
    for (const auto& [name, o] : *group) {
      all.push_back(o.data);
      if (o.stacked()) all.push_back(o.index);
    }
  return all;
}

TEST(SamplesTest, ToMovesEveryTensor) {
  const auto here = numbered();
  const auto moved = here.to(at::kMeta);
  const auto from = all_tensors(here), to = all_tensors(moved);
  ASSERT_EQ(to.size(), 24u);
  for (std::size_t i = 0; i < to.size(); ++i) {
    EXPECT_TRUE(to[i].is_meta()) << "tensor " << i;
    EXPECT_EQ(to[i].sizes(), from[i].sizes()) << "tensor " << i;
    EXPECT_EQ(to[i].scalar_type(), from[i].scalar_type()) << "tensor " << i;
  }
  for (const auto& tensor : from) EXPECT_TRUE(tensor.is_cpu()) << "the source was changed";
}

TEST(SamplesTest, ToKeepsNamesAndEverythingElse) {
  const auto moved = numbered().to(at::kMeta);
  EXPECT_EQ(moved.T, 2);
  EXPECT_EQ(moved.B, 3);
  EXPECT_EQ(moved.first_tick, 23);
  EXPECT_EQ(moved.policy_version, 24);
  EXPECT_EQ(moved.final_obs.t, std::vector<std::int64_t>{1});
  EXPECT_EQ(moved.final_obs.b, std::vector<std::int64_t>{2});
  EXPECT_EQ(moved.final_obs.size(), 1);
  EXPECT_EQ(moved.agent_info.name(1), "value");
  EXPECT_EQ(moved.observed.name(0), "image");
  EXPECT_TRUE(moved.observed[0].stacked());
}

TEST(SamplesTest, ToKeepsEachTensorInItsPlace) {
  const auto here = numbered();
  const auto from = all_tensors(here), to = all_tensors(here.to(at::kCPU));
  ASSERT_EQ(from.size(), to.size());
  for (std::size_t i = 0; i < to.size(); ++i) EXPECT_TRUE(at::equal(from[i], to[i])) << i;
}

TEST(SamplesTest, ToLeavesOutWhatIsNotThere) {
  const auto moved = Samples{}.to(at::kMeta);
  EXPECT_FALSE(moved.reward.defined());
  EXPECT_FALSE(moved.final_obs.value.defined());
  EXPECT_TRUE(moved.mask.empty());
}

}  // namespace
}  // namespace shoal
