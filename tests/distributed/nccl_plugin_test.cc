#include "plugins/nccl/nccl_plugin.h"

#include <cuda_runtime_api.h>
#include <gmock/gmock.h>
#include <nccl.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <future>
#include <string>
#include <vector>

// The plugin's waits, each of which must end. In place of NCCL and of CUDA's runtime are the
// functions below, whose results a test sets; no GPU is needed.
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::StartsWith;
using Clock = std::chrono::steady_clock;

constexpr auto kForEver = 1 << 30;  // looks

struct Fake {
  ncclResult_t init = ncclInProgress, all_reduce = ncclInProgress, finalize = ncclInProgress;
  ncclResult_t state = ncclSuccess;  // after so many looks at it, in progress before
  int looks_until_state = 3;
  cudaError_t stream = cudaSuccess;  // likewise
  int looks_until_stream = 3;
  std::string last;                                         // ncclGetLastError()
  std::shared_future<void> abort_returns, destroy_returns;  // if valid, when
  std::atomic<int> looks = 0, stream_looks = 0, blocking = -1;
  std::vector<std::string> calls;
};
Fake* fake = nullptr;

ncclComm_t communicator() { return reinterpret_cast<ncclComm_t>(fake); }

ncclResult_t begin(const char* call, ncclResult_t result) {
  fake->calls.emplace_back(call);
  fake->looks = fake->stream_looks = 0;
  return result;
}

ncclResult_t end(const char* call, std::shared_future<void> returns) {
  fake->calls.emplace_back(call);
  if (returns.valid()) returns.wait();
  return ncclSuccess;
}

}  // namespace

extern "C" {
cudaError_t cudaGetDevice(int* device) {
  *device = 1;
  return cudaSuccess;
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  std::memset(&properties->uuid, 'a' + device, sizeof properties->uuid);
  return cudaSuccess;
}
const char* cudaGetErrorString(cudaError_t) { return "what CUDA says"; }
cudaError_t cudaStreamQuery(cudaStream_t) {
  return ++fake->stream_looks > fake->looks_until_stream ? fake->stream : cudaErrorNotReady;
}

const char* ncclGetErrorString(ncclResult_t) { return "what NCCL says"; }
const char* ncclGetLastError(ncclComm_t) { return fake->last.c_str(); }
ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  std::memset(id, 'i', sizeof *id);
  return ncclSuccess;
}
ncclResult_t ncclCommInitRankConfig(ncclComm_t* made, int, ncclUniqueId, int,
                                    ncclConfig_t* config) {
  *made = communicator();
  fake->blocking = config->blocking;
  return begin("init", fake->init);
}
ncclResult_t ncclAllReduce(const void*, void*, std::size_t, ncclDataType_t, ncclRedOp_t, ncclComm_t,
                           cudaStream_t) {
  return begin("all_reduce", fake->all_reduce);
}
ncclResult_t ncclCommGetAsyncError(ncclComm_t, ncclResult_t* state) {
  *state = ++fake->looks > fake->looks_until_state ? fake->state : ncclInProgress;
  return ncclSuccess;
}
ncclResult_t ncclCommFinalize(ncclComm_t) { return begin("finalize", fake->finalize); }
ncclResult_t ncclCommDestroy(ncclComm_t) { return end("destroy", fake->destroy_returns); }
ncclResult_t ncclCommAbort(ncclComm_t) { return end("abort", fake->abort_returns); }

const shoal_nccl_api* shoal_nccl_get_api();
}

namespace {

class NcclPluginTest : public ::testing::Test {
 protected:
  void SetUp() override { fake = &fake_; }

  std::string connect(double seconds) {
    const char id[SHOAL_NCCL_ID_SIZE] = {};
    return text_of(api_.connect(id, 0, 2, seconds, &made_));
  }
  std::string sum(double seconds) {
    return text_of(api_.sum(communicator(), numbers_, 2, SHOAL_NCCL_FLOAT32, nullptr, seconds));
  }
  static std::string text_of(const char* error) { return error == nullptr ? "" : error; }

  const shoal_nccl_api& api_ = *shoal_nccl_get_api();
  Fake fake_;
  void* made_ = nullptr;
  float numbers_[2] = {};
};

TEST_F(NcclPluginTest, SaysWhichGpuItIsAndMakesIds) {
  char gpu[SHOAL_NCCL_GPU_SIZE] = {}, id[SHOAL_NCCL_ID_SIZE] = {};
  EXPECT_EQ(api_.gpu(gpu), nullptr);
  EXPECT_EQ(std::string(gpu, sizeof gpu), std::string(sizeof gpu, 'b'));
  EXPECT_EQ(api_.make_id(id), nullptr);
  EXPECT_EQ(std::string(id, sizeof id), std::string(sizeof id, 'i'));
}

TEST_F(NcclPluginTest, ConnectsSumsAndLeavesInGoodOrder) {
  EXPECT_EQ(connect(20), "");
  EXPECT_EQ(made_, communicator());
  EXPECT_EQ(fake_.blocking, 0);
  EXPECT_EQ(sum(20), "");
  EXPECT_GT(fake_.stream_looks, fake_.looks_until_stream) << "it has not waited for the device";
  api_.close(made_, 20);
  EXPECT_THAT(fake_.calls, ElementsAre("init", "all_reduce", "finalize", "destroy"));
}

TEST_F(NcclPluginTest, WhoDoesNotConnectInTimeIsNotWaitedFor) {
  fake_.looks_until_state = kForEver;
  EXPECT_EQ(connect(0.05), "ncclCommInitRankConfig: the other ranks did not respond in time");
  EXPECT_EQ(made_, nullptr);
  EXPECT_THAT(fake_.calls, ElementsAre("init", "abort"));
}

TEST_F(NcclPluginTest, WhatNcclSaysOfAConnectionIsTold) {
  fake_.state = ncclInvalidUsage;
  fake_.last = "Duplicate GPU detected";
  EXPECT_EQ(connect(20), "ncclCommInitRankConfig: what NCCL says, Duplicate GPU detected");
  EXPECT_THAT(fake_.calls, ElementsAre("init", "abort"));
}

TEST_F(NcclPluginTest, ASumThatIsNotTakenUpIsNotWaitedFor) {
  fake_.looks_until_state = kForEver;
  EXPECT_EQ(sum(0.05), "ncclAllReduce: the other ranks did not respond in time");
}

TEST_F(NcclPluginTest, ADeviceThatDoesNotComeToItsEndIsNotWaitedFor) {
  fake_.looks_until_stream = kForEver;
  EXPECT_EQ(sum(0.05), "ncclAllReduce: the other ranks did not respond in time");
}

TEST_F(NcclPluginTest, ARankThatNcclMissesEndsTheWaitForTheDevice) {
  fake_.all_reduce = ncclSuccess;
  fake_.looks_until_stream = kForEver;
  fake_.looks_until_state = 50;
  fake_.state = ncclRemoteError;
  fake_.last = "a rank has left";
  EXPECT_EQ(sum(20), "ncclAllReduce: what NCCL says, a rank has left");
}

TEST_F(NcclPluginTest, WhatCudaSaysOfASumIsTold) {
  fake_.stream = cudaErrorLaunchFailure;
  EXPECT_EQ(sum(20), "cudaStreamQuery: what CUDA says");
}

TEST_F(NcclPluginTest, WhatIsRefusedAtOnceIsTold) {
  fake_.all_reduce = ncclInvalidArgument;
  EXPECT_EQ(sum(20), "ncclAllReduce: what NCCL says");
  EXPECT_EQ(fake_.stream_looks, 0);
}

TEST_F(NcclPluginTest, ALongTextIsCut) {
  fake_.all_reduce = ncclInternalError;
  fake_.last = std::string(2000, 'x');
  EXPECT_THAT(sum(20), AllOf(StartsWith("ncclAllReduce: "), ::testing::SizeIs(511)));
}

TEST_F(NcclPluginTest, WhoeverDoesNotLeaveInTimeIsLeft) {
  fake_.looks_until_state = kForEver;
  api_.close(communicator(), 0.05);
  EXPECT_THAT(fake_.calls, ElementsAre("finalize", "abort"));
}

TEST_F(NcclPluginTest, WhoHasFailedLeavesAtOnce) {
  api_.close(communicator(), 0);
  EXPECT_THAT(fake_.calls, ElementsAre("abort"));
}

// NCCL's own abort waits for ranks that are still connected: one that hangs would keep it.
TEST_F(NcclPluginTest, AnAbortThatDoesNotReturnIsLeftBehind) {
  static std::promise<void> end;  // after the test, for the thread that stays
  fake_.abort_returns = end.get_future().share();
  const auto before = Clock::now();
  api_.close(communicator(), 0);
  EXPECT_LT(Clock::now() - before, 20s);
  EXPECT_THAT(fake_.calls, ElementsAre("abort"));
  end.set_value();
}

}  // namespace
