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

// The processes that train one agent together, each with environments of its own and a copy of the
// agent, and all with the same parameters. All of them call the same functions in the same order;
// who does not, or is too late, is named by a RankError. Used by one thread at a time.
class ProcessGroup {
 public:
  virtual ~ProcessGroup() = default;
  virtual int rank() const = 0;  // from 0; that one alone writes files and to the console
  virtual int count() const = 0;
  // Some are reached over a network, so that a sum takes long enough to do something else
  // meanwhile.
  virtual bool is_remote() const { return false; }
  // x: contiguous, on the CPU or where sums_on() says so, float32, float64 or int64, of the same
  // size in all ranks. It becomes the sum of all ranks' ones; every rank has the same bits.
  virtual void sum(at::Tensor x) = 0;
  // Whether tensors there can be summed as they are.
  virtual bool sums_on(at::Device device) const { return device.is_cpu(); }
  // What each rank gives, in the order of the ranks; of any sizes.
  virtual std::vector<std::vector<std::byte>> gather(std::span<const std::byte> own) = 0;
};

// A rank that is alone.
ProcessGroup& group_of_one();
// ProcessGroup on one machine. The exchange is this rank's end of it.
std::unique_ptr<ProcessGroup> make_shared_group(const RankExchange& exchange);

// How processes that a launcher has started speak to one another.
enum class RankBackend : std::uint8_t { kAuto, kTcp, kMpi, kNccl };

// Processes that reach one another over TCP, each as one rank.
struct TcpGroupOptions {
  int rank = 0, count = 1;
  // The rendezvous: rank 0 listens there, or, if a launcher has a c10d::TCPStore there (torchrun
  // does), says in it where it listens. Nothing is encrypted, as in all of PyTorch: it is for a
  // network whose machines trust one another.
  std::string address = "127.0.0.1";
  int port = 29500;
  bool store_exists = false;
  std::string job = {};                        // its name: who comes from another one is sent away
  std::chrono::milliseconds timeout{300'000};  // how long one waits for the others
};
// They meet when they first have something to tell one another: everything is to be forked before.
// Sums go around a ring, so that all have the same bits. RankError names who has not come, closed
// its end, or does something else.
std::unique_ptr<ProcessGroup> make_tcp_group(const TcpGroupOptions& options);

// Processes that speak by MPI, which begins when they first have something to tell one another.
// Same sums, errors and order as over TCP. rank, count: what MPI will say. Throws Error without the
// plugin.
std::unique_ptr<ProcessGroup> make_mpi_group(int rank, int count,
                                             std::chrono::milliseconds timeout);
// Whether there is the plugin.
bool has_mpi();

// The ranks `host`, which must outlive these, with sums of what is on a GPU by NCCL. It wants a GPU
// for each rank; whether they have one is seen when they first add something up there: if not, that
// is an Error if they insist, and sums go through the host's memory otherwise. Who is gone or late
// is not named, but a sum waits for no longer than the timeout, and the host with it. Throws Error
// without the plugin.
std::unique_ptr<ProcessGroup> make_nccl_group(ProcessGroup& host, std::chrono::milliseconds timeout,
                                              bool insist);
// Whether there is the plugin.
bool has_nccl();

// The ranks of several hosts, of as many each: those of host 0 come first. hosts: one rank for each
// host, in the first rank of this one; null in the others.
std::unique_ptr<ProcessGroup> make_multi_host_group(const RankExchange& exchange,
                                                    std::unique_ptr<ProcessGroup> hosts, int host,
                                                    int count);

// Each of x becomes its mean over all ranks, rank r's having the weight that rank r gives: numbers
// of steps, so that it is the mean over all steps. All float32. In one exchange. Returns the sum of
// the weights; if that is 0, x is of no use.
double average(ProcessGroup& ranks, std::vector<at::Tensor>& x, double weight);

// How many numbers there are in all ranks, their mean and their variance (divided by N - 1).
struct Moments {
  double count = 0, mean = 0, variance = 0;
};
Moments moments(ProcessGroup& ranks, const at::Tensor& x);

// Throws Error if these are of a model with batch normalization, and there are several ranks, or
// batches come in pieces: its statistics would be those of each rank's own steps, or of a piece.
void require_no_batch_norm(const ProcessGroup& ranks, int pieces, const NamedTensors& parameters);

// Throws RankError with the first rank whose bytes, which all ranks should have alike, differ from
// rank 0's. what: "the settings".
void require_equal(ProcessGroup& ranks, const std::string& what, std::span<const std::byte> bytes);
// Likewise of tensors on any device, by a checksum.
void require_equal(ProcessGroup& ranks, const std::string& what, const NamedTensors& tensors);

}  // namespace shoal
