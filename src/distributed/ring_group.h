#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "shoal/distributed/process_group.h"
#include "src/distributed/ring.h"

namespace shoal {

// A process group that sums and gathers around a ring.
class RingGroup : public ProcessGroup {
 public:
  // connect: makes the ring, at the first exchange.
  using Connect = std::function<std::unique_ptr<Ring>()>;
  RingGroup(int rank, int count, Connect connect);

  int rank() const override { return rank_; }
  int count() const override { return count_; }
  bool is_remote() const override { return true; }
  void sum(at::Tensor x) override;
  std::vector<std::vector<std::byte>> gather(std::span<const std::byte> own) override;

 private:
  Ring& ring();
  std::size_t behind(int back) const;
  template <class Of>
  void pass_around(const Ring::Act& act, const Of& of, int first = 0);
  template <class T>
  void sum_of(std::span<T> x);
  template <class T>
  void sum_small(std::span<T> x, const Ring::Act& act);

  int rank_, count_;
  Connect connect_;
  std::unique_ptr<Ring> ring_;
  std::uint32_t acts_ = 0;
};

}  // namespace shoal
