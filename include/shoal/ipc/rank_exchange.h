#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>

namespace shoal {

struct RankExchangeOptions {
  int ranks = 2;
  int spin = 2000;  // polls before a waiting rank parks; 0 if there are more ranks than cores
  std::size_t chunk = 256 * 1024;              // bytes exchanged at a time
  std::chrono::milliseconds timeout{300'000};  // how long a rank waits for the others
};

// Another rank did not arrive in time, or called another collective.
class RankError : public std::runtime_error {
 public:
  RankError(const std::string& text, int of_rank) : std::runtime_error(text), rank(of_rank) {}
  const int rank;  // the rank at fault
};

// Collectives of N processes on one machine through shared memory: sums of private arrays, gather,
// broadcast and barrier. All ranks call the same functions in the same order, with arrays of the
// same size; a rank that deviates, or does not arrive within the timeout, is named in a RankError.
// After an error the exchange must not be used again.
//
// A sum adds rank 0's array, rank 1's, and so on, in this order: every rank has the same bits, in
// every run.
//
//   a chunk: every rank copies the shares of the other ranks -> barrier -> sums its own share of
//   all ranks' chunks -> barrier -> copies the sums of the other ranks
//
// These three stages are pipelined over chunks, so that each chunk costs one barrier.
//
// An object is one rank's endpoint.
class RankExchange {
 public:
  static std::size_t bytes(const RankExchangeOptions& options);  // memory needed

  // Constructs the words in `memory` (64-byte aligned, at least bytes(options)); call once, before
  // the fork, and of() in each process. Throws Error for invalid options.
  RankExchange(std::byte* memory, const RankExchangeOptions& options);
  // The endpoint of this rank.
  RankExchange of(int rank) const;

  int rank() const { return rank_; }
  int ranks() const { return options_.ranks; }

  // Each rank's array becomes the sum of all ranks' arrays (all-reduce).
  void sum(std::span<float> values);
  void sum(std::span<double> values);
  void sum(std::span<std::int64_t> values);
  // All-gather, in the order of the ranks: to.size() is ranks() * own.size().
  void gather(std::span<const std::byte> own, std::span<std::byte> to);
  // Copies rank 0's bytes to all ranks.
  void broadcast(std::span<std::byte> bytes);
  // Returns once all ranks have called it.
  void barrier();

  // Any process: ends every wait, now and later, with a RankError that says so.
  void stop();

 private:
  struct Head;
  struct Rank;
  enum class Act : std::uint8_t { kSum, kGather, kBroadcast, kBarrier };
  template <class T>
  void sum_of(std::span<T> values);
  Rank& slot(int rank) const;
  std::byte* place(int rank, std::uint64_t chunk) const;
  void begin(Act act, std::size_t size);
  void meet();
  void wait_for(int rank, std::uint32_t generation);
  [[noreturn]] void give_up_on(int rank) const;
  void compare() const;

  std::byte* memory_;
  RankExchangeOptions options_;
  int rank_ = 0;
  std::uint32_t generation_ = 0;  // barriers so far
  std::uint64_t chunks_ = 0;      // chunks so far; selects one of the two buffers
  std::uint64_t acts_ = 0;
};

}  // namespace shoal
