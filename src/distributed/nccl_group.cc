#include "src/distributed/nccl_group.h"

#include <ATen/core/Tensor.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <exception>
#include <optional>
#include <utility>

#include "shoal/core/error.h"
#include "shoal/core/stop.h"
#include "src/compute/accelerator.h"
#include "src/core/plugin.h"
#include "src/core/print.h"
#include "src/distributed/sums.h"

namespace shoal {
namespace {

const Plugin& nccl_plugin() {
  static const Plugin kPlugin{.name = "NCCL",
                              .file = "shoal_nccl.so",
                              .variable = "SHOAL_NCCL_PLUGIN",
                              .option = "SHOAL_WITH_NCCL",
                              .symbol = SHOAL_NCCL_GET_API,
                              .version = SHOAL_NCCL_VERSION};
  return kPlugin;
}

// Sums GPU tensors by NCCL. The host group does all other exchanges and distributes NCCL's id.
class NcclGroup : public ProcessGroup {
 public:
  NcclGroup(const shoal_nccl_api& nccl, ProcessGroup& host, std::chrono::milliseconds timeout,
            bool insist)
      : nccl_(nccl),
        host_(host),
        seconds_(std::chrono::duration<double>(timeout).count()),
        insist_(insist) {}
  // A failed rank does not wait for the others, which may never get here.
  ~NcclGroup() override { close(std::uncaught_exceptions() == 0 ? seconds_ : 0); }
  NcclGroup(const NcclGroup&) = delete;
  NcclGroup& operator=(const NcclGroup&) = delete;

  int rank() const override { return host_.rank(); }
  int count() const override { return host_.count(); }
  bool is_remote() const override { return host_.is_remote(); }
  bool sums_on(at::Device device) const override { return device.is_cuda() || !is_host(device); }
  std::vector<std::vector<std::byte>> gather(std::span<const std::byte> own) override {
    return host_.gather(own);
  }

  void sum(at::Tensor x) override {
    if (!sums_on(x.device())) return host_.sum(x);
    const auto type = type_of(x);
    if (count() == 1) return;
    const c10::DeviceGuard guard(x.device());
    if (communicator_ == nullptr && !shared_gpu_) connect();
    if (shared_gpu_) return sum_on_host(x);
    auto* const on = accelerator(x.device());
    const BlockingCall call(BlockingCall::kRanks);
    require_no_error(nccl_.sum(communicator_, x.data_ptr(), static_cast<std::size_t>(x.numel()),
                               type, on != nullptr ? on->stream() : nullptr, seconds_));
  }

 private:
  struct Card {
    std::array<std::byte, SHOAL_NCCL_ID_SIZE> id{};
    std::array<std::byte, SHOAL_NCCL_GPU_SIZE> gpu{};
  };

  static shoal_nccl_type type_of(const at::Tensor& x) {
    require_summable_type(x);
    return x.scalar_type() == at::kFloat    ? SHOAL_NCCL_FLOAT32
           : x.scalar_type() == at::kDouble ? SHOAL_NCCL_FLOAT64
                                            : SHOAL_NCCL_INT64;
  }

  // The first two ranks that share a GPU, which NCCL does not support.
  static std::optional<std::pair<std::size_t, std::size_t>> same_gpu(const std::vector<Card>& all) {
    for (std::size_t r = 0; r < all.size(); ++r)
      for (std::size_t other = 0; other < r; ++other)
        if (all[r].gpu == all[other].gpu) return std::pair(other, r);
    return {};
  }

  // Creates the communicator from the id that rank 0 makes.
  void connect() {
    Card own;
    require_no_error(nccl_.gpu(own.gpu.data()));
    if (rank() == 0) require_no_error(nccl_.make_id(own.id.data()));
    const auto cards = host_.gather(std::as_bytes(std::span(&own, 1)));
    std::vector<Card> all(cards.size());
    for (std::size_t r = 0; r < cards.size(); ++r)
      std::memcpy(&all[r], cards[r].data(), sizeof(Card));
    if (const auto same = same_gpu(all)) {
      const auto text = fmt::format("ranks {} and {} have the same GPU", same->first, same->second);
      require(!insist_,
              "rank_backend: {}, but nccl needs one for each rank; use fewer ranks, or set "
              "rank_backend to auto",
              text);
      if (rank() == 0) print_error("note: {}: gradients are summed in host memory\n", text);
      shared_gpu_ = true;  // in all ranks, which have gathered the same cards
      return;
    }
    require_no_error(nccl_.connect(all[0].id.data(), rank(), count(), seconds_, &communicator_));
  }

  void sum_on_host(const at::Tensor& x) {
    const auto copy = x.to(at::kCPU, /*non_blocking=*/false, /*copy=*/true);
    host_.sum(copy);
    x.copy_(copy);
  }

  void close(double seconds) {
    if (communicator_ != nullptr) nccl_.close(std::exchange(communicator_, nullptr), seconds);
  }

  // NCCL does not report which rank failed or is late.
  void require_no_error(const char* error) {
    if (error == nullptr) return;
    const auto text = fmt::format("rank {}: NCCL failed: {}", rank(), error);
    close(0);
    throw RankError(text, rank());
  }

  const shoal_nccl_api& nccl_;
  ProcessGroup& host_;
  double seconds_;
  bool insist_, shared_gpu_ = false;
  void* communicator_ = nullptr;
};

}  // namespace

bool has_nccl() { return nccl_plugin().exists(); }

std::unique_ptr<ProcessGroup> make_nccl_group(const shoal_nccl_api& nccl, ProcessGroup& host,
                                              std::chrono::milliseconds timeout, bool insist) {
  return std::make_unique<NcclGroup>(nccl, host, timeout, insist);
}

std::unique_ptr<ProcessGroup> make_nccl_group(ProcessGroup& host, std::chrono::milliseconds timeout,
                                              bool insist) {
  return make_nccl_group(nccl_plugin().load<shoal_nccl_api>(), host, timeout, insist);
}

}  // namespace shoal
