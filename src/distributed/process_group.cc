#include "shoal/distributed/process_group.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "shoal/core/error.h"
#include "src/distributed/shared_group.h"

namespace shoal {

namespace {

class GroupOfOne : public ProcessGroup {
 public:
  int rank() const override { return 0; }
  int count() const override { return 1; }
  void sum(at::Tensor) override {}
  std::vector<std::vector<std::byte>> gather(std::span<const std::byte> own) override {
    return {{own.begin(), own.end()}};
  }
};

// FNV-1a (Fowler, Noll, Vo) over words of eight bytes: any changed bit changes the result.
std::uint64_t checksum(std::span<const std::byte> bytes, std::uint64_t sum) {
  constexpr std::uint64_t kPrime = 0x100000001b3;
  for (std::size_t i = 0; i < bytes.size(); i += sizeof sum) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes.data() + i, std::min(sizeof word, bytes.size() - i));
    sum = (sum ^ word) * kPrime;
    sum ^= sum >> 32;  // otherwise the upper bits of a word would never affect the lower ones
  }
  return sum;
}
constexpr std::uint64_t kBasis = 0xcbf29ce484222325;

}  // namespace

ProcessGroup& group_of_one() {
  static GroupOfOne one;
  return one;
}

std::unique_ptr<ProcessGroup> make_shared_group(const RankExchange& exchange) {
  return std::make_unique<SharedGroup>(exchange);
}

double average(ProcessGroup& ranks, std::vector<at::Tensor>& x, double weight) {
  if (ranks.count() == 1) return weight;
  std::vector<at::Tensor> flat;
  for (const auto& each : x) flat.push_back(each.flatten());
  flat.push_back(at::ones({1}, flat.front().options()));
  const auto device = flat.front().device();
  auto all = at::cat(flat).mul_(weight);
  if (!ranks.sums_on(device)) all = all.to(at::kCPU);
  ranks.sum(all);
  const auto total = all[-1].item<float>();
  all.div_(total);
  all = all.to(device);
  std::int64_t from = 0;
  for (auto& each : x) {
    each = all.narrow(0, from, each.numel()).view(each.sizes());
    from += each.numel();
  }
  return total;
}

// The ranks exchange their moments once, and all combine them in the same order (Chan, Golub,
// LeVeque, "Updating formulae and a pairwise algorithm for computing sample variances", 1979, eq.
// 2.1).
Moments moments(ProcessGroup& ranks, const at::Tensor& x) {
  const auto numbers = x.detach().to(at::kCPU, at::kDouble);
  const auto all = at::zeros({ranks.count(), 3}, at::kDouble);
  auto* const own = all[ranks.rank()].data_ptr<double>();
  if (numbers.numel() > 0) {
    own[0] = static_cast<double>(numbers.numel());
    own[1] = numbers.mean().item<double>();
    own[2] = (numbers - own[1]).square().sum().item<double>();
  }
  ranks.sum(all);
  Moments m;
  double squares = 0;
  const auto* next = all.const_data_ptr<double>();
  for (int rank = 0; rank < ranks.count(); ++rank, next += 3) {
    const auto [count, mean, more] = std::array{next[0], next[1], next[2]};
    if (count == 0) continue;
    const double distance = mean - m.mean, together = m.count + count;
    squares += more + distance * distance * m.count * count / together;
    m.mean += distance * count / together;
    m.count = together;
  }
  if (m.count > 1) m.variance = squares / (m.count - 1);
  return m;
}

void require_no_batch_norm(const ProcessGroup& ranks, int pieces, const NamedTensors& parameters) {
  if (ranks.count() == 1 && pieces == 1) return;
  for (const auto& [name, tensor] : parameters)
    require(
        !name.ends_with("running_mean"),
        "ranks: found {}, with batches in {} piece{}, but the model has batch normalization ({}), "
        "whose statistics would differ between ranks and pieces; use layer normalization, or one "
        "rank and whole batches",
        ranks.count(), pieces, pieces == 1 ? "" : "s", name);
}

void require_equal(ProcessGroup& ranks, const std::string& what, std::span<const std::byte> bytes) {
  const auto sum = checksum(bytes, kBasis);
  const auto all = ranks.gather(std::as_bytes(std::span(&sum, 1)));
  for (std::size_t r = 1; r < all.size(); ++r)
    if (all[r] != all[0])
      throw RankError(
          fmt::format("{} of rank {} differ from rank 0's; all ranks must have the same", what, r),
          static_cast<int>(r));
}

void require_equal(ProcessGroup& ranks, const std::string& what, const NamedTensors& tensors) {
  if (ranks.count() == 1) return;
  std::uint64_t sum = kBasis;
  for (const auto& [name, tensor] : tensors) {
    const auto bytes = tensor.detach().to(at::kCPU).contiguous();
    sum = checksum(std::as_bytes(std::span(name.data(), name.size())), sum);
    sum = checksum({static_cast<const std::byte*>(bytes.const_data_ptr()), bytes.nbytes()}, sum);
  }
  require_equal(ranks, what, std::as_bytes(std::span(&sum, 1)));
}

}  // namespace shoal
