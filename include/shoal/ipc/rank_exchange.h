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
  int spin = 2000;                 // polls before a waiting rank parks; 0: more ranks than cores
  std::size_t chunk = 256 * 1024;  // bytes that go through shared memory at a time
  std::chrono::milliseconds timeout{300'000};  // how long a rank waits for the others
};

// Another rank did not come in time, or does something else.
class RankError : public std::runtime_error {
 public:
  RankError(const std::string& text, int of_rank) : std::runtime_error(text), rank(of_rank) {}
  const int rank;  // the one that is to blame
};

// What N processes on one machine tell one another: sums of arrays that each of them has in memory
// of its own, by way of shared memory, and a barrier. All ranks call the same functions in the same
// order, with arrays of the same size; who does not is found out and named (RankError), as is who
// does not come within the timeout. After an error nobody may use the exchange again.
//
// A sum is that of rank 0's array, rank 1's, and so on, in this order: every rank has the same
// bits, in every run.
//
//   a chunk: every rank copies what the others are to add up -> barrier -> adds its own share of
//   all ranks' chunks -> barrier -> copies what the others have added up
//
// and the three are done for different chunks at once, so that there is one barrier for each chunk.
//
// An object is one rank's end of it.
class RankExchange {
 public:
  static std::size_t bytes(const RankExchangeOptions& options);  // memory it needs

  // Constructs the words in `memory` (64-byte aligned, at least bytes(options)); call once, before
  // the fork, and of() in each process. Throws Error for options that make no sense.
  RankExchange(std::byte* memory, const RankExchangeOptions& options);
  // The end of this rank.
  RankExchange of(int rank) const;

  int rank() const { return rank_; }
  int ranks() const { return options_.ranks; }

  // Each rank's array becomes the sum of all ranks' arrays.
  void sum(std::span<float> values);
  void sum(std::span<double> values);
  void sum(std::span<std::int64_t> values);
  // Of what each rank gives, in the order of the ranks: to.size() is ranks() * own.size().
  void gather(std::span<const std::byte> own, std::span<std::byte> to);
  // Rank 0's bytes to all.
  void broadcast(std::span<std::byte> bytes);
  // No rank comes out before all have come.
  void barrier();

  // Anybody: ends every wait, now and from now on, with a RankError that says so.
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
  std::uint32_t generation_ = 0;  // meetings so far
  std::uint64_t chunks_ = 0;      // so far; which of the two places is next
  std::uint64_t acts_ = 0;
};

}  // namespace shoal
