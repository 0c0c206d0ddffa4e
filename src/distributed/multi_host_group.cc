#include <ATen/core/Tensor.h>

#include <cstring>

#include "shoal/core/error.h"
#include "shoal/distributed/process_group.h"
#include "src/distributed/shared_group.h"

namespace shoal {
namespace {

// Exchanges between hosts go through the first rank of each host only.
class MultiHostGroup : public ProcessGroup {
 public:
  MultiHostGroup(const RankExchange& exchange, std::unique_ptr<ProcessGroup> hosts, int host,
                 int count)
      : own_(exchange), hosts_(std::move(hosts)), host_(host), count_(count) {}

  int rank() const override { return host_ * own_.count() + own_.rank(); }
  int count() const override { return count_ * own_.count(); }
  bool is_remote() const override { return true; }

  void sum(at::Tensor x) override {
    own_.sum(x);
    if (hosts_) hosts_->sum(x);
    own_.exchange().broadcast({static_cast<std::byte*>(x.data_ptr()), x.nbytes()});
  }

  std::vector<std::vector<std::byte>> gather(std::span<const std::byte> own) override {
    const auto here = own_.gather(own);
    std::vector<std::byte> packed;
    if (hosts_) packed = pack(hosts_->gather(pack(here)));
    std::size_t size = packed.size();
    own_.exchange().broadcast(std::as_writable_bytes(std::span(&size, 1)));
    packed.resize(size);
    own_.exchange().broadcast(packed);
    std::vector<std::vector<std::byte>> all;
    for (const auto& host : unpack(packed))
      for (auto& of_rank : unpack(host)) all.push_back(std::move(of_rank));
    return all;
  }

 private:
  // Each one after its size.
  static std::vector<std::byte> pack(const std::vector<std::vector<std::byte>>& all) {
    std::vector<std::byte> packed;
    for (const auto& one : all) {
      const std::size_t size = one.size();
      const auto bytes = std::as_bytes(std::span(&size, 1));
      packed.insert(packed.end(), bytes.begin(), bytes.end());
      packed.insert(packed.end(), one.begin(), one.end());
    }
    return packed;
  }
  static std::vector<std::vector<std::byte>> unpack(std::span<const std::byte> packed) {
    std::vector<std::vector<std::byte>> all;
    while (!packed.empty()) {
      std::size_t size = 0;
      std::memcpy(&size, packed.data(), sizeof size);
      const auto one = packed.subspan(sizeof size, size);
      all.emplace_back(one.begin(), one.end());
      packed = packed.subspan(sizeof size + size);
    }
    return all;
  }

  SharedGroup own_;
  std::unique_ptr<ProcessGroup> hosts_;  // null except in the first rank of each host
  int host_, count_;
};

}  // namespace

std::unique_ptr<ProcessGroup> make_multi_host_group(const RankExchange& exchange,
                                                    std::unique_ptr<ProcessGroup> hosts, int host,
                                                    int count) {
  require(
      count >= 1 && host >= 0 && host < count && (hosts != nullptr) == (exchange.rank() == 0),
      "rank {} of host {} of {}: the first rank of each host, and no other, must have a group of "
      "hosts",
      exchange.rank(), host, count);
  return std::make_unique<MultiHostGroup>(exchange, std::move(hosts), host, count);
}

}  // namespace shoal
