#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cstdio>

#include "src/compute/captured_graph.h"
#include "tests/support/stand_in_device.h"

// The stand-in device rejects or reveals errors in the use of graphs on a GPU.
namespace shoal {
namespace {

using testing::kStandIn;
using testing::StandInDevice;

class StandInTest : public ::testing::Test {
 protected:
  void TearDown() override { EXPECT_EQ(StandInDevice::faults(), std::vector<std::string>{}); }

  static at::Tensor there(const at::Tensor& t) { return t.to(kStandIn); }
  static at::Tensor ones() { return there(at::ones({3})); }
  void expect_refused(const std::function<void()>& work, const std::string& why) {
    try {
      device_.capture(work);
      ADD_FAILURE() << "it was captured, but " << why;
    } catch (const std::exception& e) {
      EXPECT_NE(std::string(e.what()).find(why), std::string::npos) << e.what();
    }
  }
  static void expect_equal(const at::Tensor& there, const std::vector<float>& wanted) {
    EXPECT_TRUE(at::equal(there.cpu(), at::tensor(wanted))) << there.cpu();
  }

  StandInDevice device_;
};

TEST_F(StandInTest, ComputesWhatTheCpuDoesWithGradients) {
  torch::manual_seed(1);
  const auto x = at::randn({5, 4}), w = at::randn({4, 3});
  const auto learn = [&](at::Device device) {
    const auto weight = w.to(device, at::kFloat, false, /*copy=*/true).requires_grad_();
    const auto loss = at::linear(x.to(device), weight.t()).log_softmax(1).square().mean();
    return torch::autograd::grad({loss}, {weight})[0].cpu();
  };
  EXPECT_TRUE(at::equal(learn(at::kCPU), learn(kStandIn)));
}

TEST_F(StandInTest, ReplaysRepeatWithTheMemoryAndTheNumbersOfTheCapture) {
  const auto x = ones(), y = there(at::zeros({3}));
  double rate = 2;
  const auto graph = device_.capture([&] { y.add_(x * rate); });
  expect_equal(y, {0, 0, 0});  // nothing is computed during capture
  graph->replay();
  expect_equal(y, {2, 2, 2});
  rate = 5;
  x.fill_(10);
  graph->replay();
  expect_equal(y, {22, 22, 22});  // the new x, the old rate
}

TEST_F(StandInTest, TensorsOfOneNumberOnTheHostAreFrozenToo) {
  const auto y = there(at::zeros({3})), rate = at::scalar_tensor(2.0F);
  const auto graph = device_.capture([&] { y.add_(rate); });
  rate.fill_(7);
  graph->replay();
  expect_equal(y, {2, 2, 2});
}

TEST_F(StandInTest, GradientsAreCapturedThoughAnotherThreadComputesThem) {
  const auto w = ones(), out = there(at::zeros({3}));
  const auto graph = device_.capture([&] {
    const auto leaf = w.detach().requires_grad_();
    out.copy_(torch::autograd::grad({leaf.square().sum()}, {leaf})[0]);
  });
  w.fill_(3);
  graph->replay();
  expect_equal(out, {6, 6, 6});
}

TEST_F(StandInTest, MemoryOfACaptureDoesNotKeepItsNumbers) {
  const auto x = ones();
  auto y = there(at::zeros({3}));
  at::Tensor kept;
  auto graph = device_.capture([&] {
    kept = x + 1;
    y.copy_(kept);
  });
  EXPECT_TRUE(kept.cpu().isnan().all().item<bool>());
  graph->replay();
  expect_equal(kept, {2, 2, 2});
  kept = at::Tensor();
  graph->replay();
  expect_equal(y, {2, 2, 2});
}

TEST_F(StandInTest, FreedMemoryIsAnErrorAtTheReplay) {
  auto x = ones();
  const auto y = there(at::zeros({3}));
  const auto graph = device_.capture([&] { y.copy_(x * 2); });
  x = ones();
  EXPECT_THROW(graph->replay(), std::runtime_error);
}

TEST_F(StandInTest, SomeOperationsCannotBeCaptured) {
  const auto x = ones(), mask = x.gt(0);
  expect_refused([&] { x.sum().item<float>(); }, "waits for the device");
  expect_refused([&] { x.nonzero(); }, "waits for the device");
  expect_refused([&] { x.masked_select(mask); }, "waits for the device");
  expect_refused([&] { x.index({mask}); }, "waits for the device");
  expect_refused([&] { (void)at::equal(x, x); }, "waits for the device");
  expect_refused([&] { x.cpu(); }, "a copy that waits");
  expect_refused([&] { device_.wait(); }, "waiting for the device");
  expect_refused([&] { x.copy_(at::zeros({3}), /*non_blocking=*/true); }, "not pinned");
  expect_refused([&] { at::zeros({3}) + 1; }, "tensors of the host");
  expect_equal(x, {1, 1, 1});
}

TEST_F(StandInTest, TensorsOfTheHostDoNotMixWithThoseOfTheDevice) {
  EXPECT_ANY_THROW(ones() + at::ones({3}));
  EXPECT_ANY_THROW(at::cat({ones(), at::ones({3})}));
}

TEST_F(StandInTest, PinnedMemoryIsReadAtTheReplay) {
  const auto pinned = at::ones({3}, at::TensorOptions().pinned_memory(true)), x = ones();
  ASSERT_TRUE(pinned.is_pinned());
  const auto graph = device_.capture([&] { x.copy_(pinned, /*non_blocking=*/true); });
  pinned.fill_(5);
  graph->replay();
  device_.wait();
  expect_equal(x, {5, 5, 5});
}

TEST_F(StandInTest, WhatArrivesLaterIsNotThereBefore) {
  const auto pinned = at::zeros({3}, at::TensorOptions().pinned_memory(true));
  pinned.copy_(ones(), /*non_blocking=*/true);
  EXPECT_FALSE(at::equal(pinned, at::ones({3})));
  device_.wait();
  EXPECT_TRUE(at::equal(pinned, at::ones({3})));
}

TEST_F(StandInTest, MemoryThatTheDeviceStillReadsMustNotChange) {
  const auto pinned = at::zeros({3}, at::TensorOptions().pinned_memory(true)), x = ones();
  x.copy_(pinned, /*non_blocking=*/true);
  pinned.fill_(1);
  device_.wait();
  EXPECT_EQ(StandInDevice::faults().size(), 1U);
}

TEST_F(StandInTest, TheHostCannotReadItsMemory) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto x = ones();
  const auto* number = x.const_data_ptr<float>();
  EXPECT_DEATH(std::printf("%f", *number), "");
}

}  // namespace
}  // namespace shoal
