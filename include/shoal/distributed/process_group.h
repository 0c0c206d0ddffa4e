#pragma once

#include <ATen/core/Tensor.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "shoal/data/samples.h"
#include "shoal/ipc/rank_exchange.h"

namespace shoal {

// The processes that train one agent together, each with its own environments and a copy of the
// agent, all with equal parameters. All ranks must call the same functions in the same order; a
// rank that deviates or is late is reported in a RankError. Used by one thread at a time.
class ProcessGroup {
 public:
  virtual ~ProcessGroup() = default;
  virtual int rank() const = 0;  // from 0; only rank 0 writes files and to the console
  virtual int count() const = 0;
  // Whether a sum crosses a network, so that overlapping it with computation pays off.
  virtual bool is_remote() const { return false; }
  // All-reduce in place: x becomes the sum over all ranks, bit for bit the same in every rank.
  // x: contiguous, on a device for which sums_on() is true, float32, float64 or int64, of the same
  // size in all ranks.
  virtual void sum(at::Tensor x) = 0;
  // Whether sum() takes tensors on this device; always true for the CPU.
  virtual bool sums_on(at::Device device) const { return device.is_cpu(); }
  // All-gather: the bytes of each rank, in rank order. Sizes may differ.
  virtual std::vector<std::vector<std::byte>> gather(std::span<const std::byte> own) = 0;
};

// A process group of one rank.
ProcessGroup& group_of_one();
// A process group on one machine, over shared memory. exchange: this rank's end.
std::unique_ptr<ProcessGroup> make_shared_group(const RankExchange& exchange);

// The transport between processes that a launcher has started.
enum class RankBackend : std::uint8_t { kAuto, kTcp, kMpi, kNccl };

struct TcpGroupOptions {
  int rank = 0, count = 1;
  // The rendezvous. Rank 0 listens at this port on every network interface; the others connect to
  // this address. If a launcher, such as torchrun, has a c10d::TCPStore there (store_exists), rank
  // 0 publishes its own address in the store. As in PyTorch, nothing is encrypted: use it only in a
  // network whose machines trust one another.
  std::string address = "127.0.0.1";
  int port = 29500;
  bool store_exists = false;
  std::string job = {};                        // name; connections from other jobs are rejected
  std::chrono::milliseconds timeout{300'000};  // largest wait for the other ranks
};
// A group of processes connected by TCP, each of them one rank. They connect at the first exchange;
// later forks keep the connections, too. Sums are ring all-reduces, bit for bit the same in all
// ranks. A RankError names the rank that has not connected, has left, or deviates.
std::unique_ptr<ProcessGroup> make_tcp_group(const TcpGroupOptions& options);

// A group of MPI processes. MPI is initialized at the first exchange. Sums, errors and order are as
// over TCP; but if MPI does not start or end within `timeout`, the process exits with status 1.
// rank, count: must match MPI's. Throws Error without the plugin.
std::unique_ptr<ProcessGroup> make_mpi_group(int rank, int count,
                                             std::chrono::milliseconds timeout);
// Whether the plugin exists.
bool has_mpi();

// The process group `host`, which must outlive this one, with NCCL for sums of GPU tensors. NCCL
// needs a GPU for each rank, which is checked at the first such sum: if ranks share a GPU, the sum
// throws Error if `insist`, and sums go through host memory otherwise. A sum ends at the timeout
// with an error that does not name the missing rank. Throws Error without the plugin.
std::unique_ptr<ProcessGroup> make_nccl_group(ProcessGroup& host, std::chrono::milliseconds timeout,
                                              bool insist);
// Whether the plugin exists.
bool has_nccl();

// The ranks of several hosts, the same number on each, ordered by host. hosts: a group with one
// rank for each host, given to the first rank of this host; null in the others.
std::unique_ptr<ProcessGroup> make_multi_host_group(const RankExchange& exchange,
                                                    std::unique_ptr<ProcessGroup> hosts, int host,
                                                    int count);

// The elements of x, at least one, are replaced by new tensors, their weighted means over all
// ranks; weight is that of this rank, e.g. its number of steps, for a mean over all steps. All
// float32, in one exchange. Returns the sum of the weights; if that is 0, x is meaningless.
double average(ProcessGroup& ranks, std::vector<at::Tensor>& x, double weight);

// Count, mean and variance (divided by N - 1) of the numbers of all ranks.
struct Moments {
  double count = 0, mean = 0, variance = 0;
};
Moments moments(ProcessGroup& ranks, const at::Tensor& x);

// Throws Error if the parameters belong to a model with batch normalization and there are several
// ranks, or batches in several pieces: its statistics would be those of one rank or one piece.
void require_no_batch_norm(const ProcessGroup& ranks, int pieces, const NamedTensors& parameters);

// Throws RankError with the first rank whose bytes differ from rank 0's. what: for the message, a
// plural such as "the settings".
void require_equal(ProcessGroup& ranks, const std::string& what, std::span<const std::byte> bytes);
// The same for tensors on any device, by a checksum.
void require_equal(ProcessGroup& ranks, const std::string& what, const NamedTensors& tensors);

}  // namespace shoal
