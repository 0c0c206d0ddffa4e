#include "src/distributed/nccl_group.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <array>
#include <barrier>
#include <cstring>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "shoal/distributed/process_group.h"
#include "shoal/ipc/rank_exchange.h"
#include "tests/distributed/rendezvous_store.h"
#include "tests/support/fake_accelerator.h"

// Process groups that sum on GPUs. The CPU stands in for the GPUs, and a few lines for NCCL, which
// sum the memory of the threads that are the ranks.
namespace shoal::nccl_ranks_test {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr int kCount = 2;

struct World {
  std::array<int, kCount> gpus{0, 1};
  std::string fails;  // the error of sum()
  std::array<void*, kCount> data{};
  std::barrier<> met{kCount};
  std::mutex mutex;
  std::vector<std::string> ids;  // that connect() was told
  int sums = 0;
  std::vector<double> closed;  // the seconds of each
};
std::unique_ptr<World> world;
thread_local int own_rank = 0;

const char* gpu(void* name) {
  std::memset(name, world->gpus[static_cast<std::size_t>(own_rank)], SHOAL_NCCL_GPU_SIZE);
  return nullptr;
}

const char* make_id(void* id) {
  std::memset(id, 0, SHOAL_NCCL_ID_SIZE);
  std::strcpy(static_cast<char*>(id), fmt::format("made by {}", own_rank).c_str());
  return nullptr;
}

const char* connect(const void* id, int rank, int count, double, void** communicator) {
  const std::scoped_lock lock(world->mutex);
  world->ids.emplace_back(static_cast<const char*>(id));
  if (rank != own_rank || count != kCount) return "another rank";
  *communicator = world.get();
  return nullptr;
}

template <class T>
void add_up(void* data, std::size_t count) {
  world->data[static_cast<std::size_t>(own_rank)] = data;
  world->met.arrive_and_wait();
  std::vector<T> sum(count);
  for (const void* one : world->data)
    for (std::size_t i = 0; i < count; ++i) sum[i] += static_cast<const T*>(one)[i];
  world->met.arrive_and_wait();
  std::memcpy(data, sum.data(), count * sizeof(T));
}

const char* sum(void*, void* data, std::size_t count, shoal_nccl_type type, void*, double) {
  if (!world->fails.empty()) return world->fails.c_str();
  {
    const std::scoped_lock lock(world->mutex);
    ++world->sums;
  }
  if (type == SHOAL_NCCL_FLOAT32) add_up<float>(data, count);
  if (type == SHOAL_NCCL_FLOAT64) add_up<double>(data, count);
  if (type == SHOAL_NCCL_INT64) add_up<std::int64_t>(data, count);
  return nullptr;
}

void close(void*, double seconds) {
  const std::scoped_lock lock(world->mutex);
  world->closed.push_back(seconds);
}

const shoal_nccl_api kFake{.version = SHOAL_NCCL_VERSION,
                           .gpu = gpu,
                           .make_id = make_id,
                           .connect = connect,
                           .sum = sum,
                           .close = close};

class NcclGroupTest : public ::testing::Test {
 protected:
  void SetUp() override { world = std::make_unique<World>(); }

  // The error message of each rank; body(its group, its number).
  template <class Body>
  std::vector<std::string> in_ranks(const Body& body, bool insist = true) {
    const testing::FakeAccelerator::On on(fake_);
    return testing::in_threads(kCount, [&](int r) {
      own_rank = r;
      const auto host = make_tcp_group(place_.options(r, kCount));
      const auto ranks = make_nccl_group(kFake, *host, 5s, insist);
      body(*ranks, r);
    });
  }

  static void require_equal_tensors(const at::Tensor& found, const at::Tensor& wanted) {
    if (!at::equal(found, wanted)) throw std::runtime_error("other numbers");
  }

  testing::FakeAccelerator fake_;
  testing::RendezvousStore place_;
};

TEST_F(NcclGroupTest, AddUpOnTheDeviceAndTellTheRestByTheHost) {
  const auto said = in_ranks([](ProcessGroup& ranks, int r) {
    for (const auto type : {at::kFloat, at::kDouble, at::kLong}) {
      const auto x = at::arange(5, type).add_(10 * r);
      ranks.sum(x);
      require_equal_tensors(x, at::arange(5, type).mul_(2).add_(10));
    }
    const std::byte own{static_cast<unsigned char>(r)};
    if (ranks.gather({&own, 1})[1] != std::vector{std::byte{1}})
      throw std::runtime_error("not gathered");
  });
  EXPECT_THAT(said, Each(IsEmpty()));
  EXPECT_THAT(world->ids, ElementsAre("made by 0", "made by 0"));
  EXPECT_EQ(world->sums, 3 * kCount);
  EXPECT_THAT(world->closed, ElementsAre(5, 5));
}

TEST_F(NcclGroupTest, GradientsAreAveragedWhereTheyAre) {
  const auto said = in_ranks([](ProcessGroup& ranks, int r) {
    std::vector<at::Tensor> x = {at::full({2, 3}, 1.0 + r), at::full({4}, 10.0 * r)};
    if (average(ranks, x, r == 0 ? 1 : 3) != 4) throw std::runtime_error("another weight");
    require_equal_tensors(x[0], at::full({2, 3}, 1.75));
    require_equal_tensors(x[1], at::full({4}, 7.5));
  });
  EXPECT_THAT(said, Each(IsEmpty()));
  EXPECT_EQ(world->sums, kCount);
}

TEST_F(NcclGroupTest, OneGpuForTwoRanksIsAnErrorIfTheyInsist) {
  world->gpus = {3, 3};
  const auto said = in_ranks([](ProcessGroup& ranks, int) { ranks.sum(at::ones({1})); });
  EXPECT_THAT(said, Each(AllOf(HasSubstr("rank_backend: ranks 0 and 1 have the same GPU"),
                               HasSubstr("set rank_backend to auto"))));
  EXPECT_THAT(world->ids, IsEmpty());
}

TEST_F(NcclGroupTest, RanksThatShareAGpuAddUpOnTheHostOtherwise) {
  world->gpus = {3, 3};
  ::testing::internal::CaptureStderr();
  const auto said = in_ranks(
      [](ProcessGroup& ranks, int r) {
        for (int i = 0; i < 2; ++i) {
          const auto x = at::full({3}, 1.0 + r);
          ranks.sum(x);
          require_equal_tensors(x, at::full({3}, 3.0));
        }
      },
      /*insist=*/false);
  EXPECT_THAT(said, Each(IsEmpty()));
  EXPECT_EQ(::testing::internal::GetCapturedStderr(),
            "note: ranks 0 and 1 have the same GPU: gradients are summed in host memory\n");
  EXPECT_THAT(world->ids, IsEmpty());
  EXPECT_EQ(world->sums, 0);
}

TEST_F(NcclGroupTest, WhatNcclSaysIsTheRanksError) {
  world->fails = "ncclAllReduce: the other ranks did not respond in time";
  std::array<std::string, kCount> texts;
  const auto said = in_ranks([&](ProcessGroup& ranks, int r) {
    try {
      ranks.sum(at::ones({1}));
    } catch (const RankError& e) {
      if (e.rank != r) throw;
      texts[static_cast<std::size_t>(r)] = e.what();
    }
  });
  EXPECT_THAT(said, Each(IsEmpty()));
  for (int r = 0; r < kCount; ++r)
    EXPECT_THAT(texts[static_cast<std::size_t>(r)],
                AllOf(HasSubstr(fmt::format("rank {}: NCCL failed", r)),
                      HasSubstr("did not respond in time")));
  EXPECT_THAT(world->closed, ElementsAre(0, 0)) << "who catches that must not wait at its end";
}

TEST_F(NcclGroupTest, WhoFailsElsewhereDoesNotWaitForTheOthers) {
  const auto said = in_ranks([](ProcessGroup& ranks, int r) {
    ranks.sum(at::ones({1}));
    if (r == 0) throw std::runtime_error("an environment is broken");
  });
  EXPECT_THAT(said, ElementsAre("an environment is broken", ""));
  EXPECT_THAT(world->closed, ::testing::UnorderedElementsAre(0, 5));
}

TEST_F(NcclGroupTest, WhatCannotBeAddedUpIsAnError) {
  const auto said = in_ranks([](ProcessGroup& ranks, int r) {
    ranks.sum(r == 0 ? at::ones({4, 4}).t() : at::ones({2}, at::kInt));
  });
  EXPECT_THAT(said[0], HasSubstr("contiguous"));
  EXPECT_THAT(said[1], HasSubstr("found Int, expected float32, float64 or int64"));
}

// The plugin itself: it is found and complete, and reports a missing GPU.
TEST_F(NcclGroupTest, ThePluginRefusesWithoutAGpu) {
#ifdef SHOAL_HAS_NCCL_PLUGIN
  ASSERT_TRUE(has_nccl());
#else
  if (!has_nccl()) GTEST_SKIP() << "the plugin was not built";
#endif
  const testing::FakeAccelerator::On on(fake_);
  const auto said = testing::in_threads(kCount, [&](int r) {
    const auto host = make_tcp_group(place_.options(r, kCount));
    const auto ranks = make_nccl_group(*host, 1s, true);
    ranks->sum(at::ones({1}));
  });
  for (const auto& text : said)
    if (text.find("cuda") == std::string::npos) GTEST_SKIP() << "there is a GPU: " << text;
  EXPECT_THAT(said, Each(AllOf(HasSubstr("NCCL failed"), HasSubstr("cuda"))));
}

}  // namespace
}  // namespace shoal::nccl_ranks_test
