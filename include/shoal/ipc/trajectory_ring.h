#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>

namespace shoal {

// Metadata of a rollout.
struct RolloutTag {
  std::int64_t number = 0;      // serial number of this rollout, from 1, in order of publication
  std::int64_t first_tick = 0;  // steps of its environments before it
  std::int64_t policy_version = 0;  // version of the parameters at its start
  int writer = 0;
};

// Treatment of a rollout whose policy is too old when it is taken.
enum class StaleRollouts : std::uint8_t {
  kUse,   // counted, and given to the reader
  kDrop,  // counted, and discarded unread
};

struct TrajectoryRingOptions {
  int slots = 8;  // rollouts that are being written, waiting, or being read
  // Largest policy lag of a rollout behind the reader, in versions.
  std::int64_t max_lag = std::numeric_limits<std::int64_t>::max();
  StaleRollouts stale = StaleRollouts::kUse;
  // True: if no slot is free and some rollouts are unread, all writers wait until the reader has
  // released all of them, or asks for more than there are. Sampling and learning then alternate
  // once sampling runs ahead (the rule of DPPO's queue, Heess et al., arXiv 1707.02286). False: a
  // writer waits for any slot.
  bool drain = false;
  int spin = 0;  // polls before parking: see default_spin()
};

// Counts of rollouts so far.
struct RingCounts {
  std::int64_t published = 0;  // serial numbers assigned, including those of writers that died
                               // while publishing
  std::int64_t taken = 0;      // given to the reader
  std::int64_t dropped = 0;    // too old, discarded
  std::int64_t stale = 0;      // too old, discarded or not
  std::int64_t reclaimed = 0;  // unfinished rollouts of dead writers
};

// Passes rollouts from many writers to one reader in shared memory, without copies: a bounded ring
// of slots. The caller provides the memory of the rollouts (`slots` places in the arena).
//
//   writer:  slot = acquire(writer)  ->  fill it, in place  ->  publish(slot)
//   reader:  rollout = take(version)  ->  read it, in place  ->  release(rollout.slot)
//
// Writers wait while no slot is free, the reader while no rollout is ready. One writer's rollouts
// arrive in the order of publication, those of different writers nearly so. Writes before publish()
// are visible after take(); reads before release() are complete before the slot is written again.
//
// A writer may be killed at any moment: each slot's state is a single word, so a slot is either
// published, or still belongs to the writer until reclaim(). A process that the dead writer should
// have woken wakes then, or when its timeout expires. Every wait has a timeout (at most a day),
// after which the waiter can check for deaths.
//
// An object is a handle: each process or thread uses its own copy.
class TrajectoryRing {
 public:
  static std::size_t bytes(int slots);  // memory needed, without the rollouts

  // Constructs the words in `memory` (64-byte aligned, at least bytes(options.slots)); call once,
  // before the fork. Throws Error for fewer than one slot, more than 65,535, or a max_lag below 0.
  TrajectoryRing(std::byte* memory, const TrajectoryRingOptions& options);

  // Writers only. Returns a slot to fill; nothing after the timeout or stop(). writer: below
  // 16,384; each writer has its own number.
  std::optional<int> acquire(int writer, std::chrono::milliseconds timeout);
  // The writer that acquired the slot. Sets the tag's number and writer.
  void publish(int slot, RolloutTag tag);

  struct Taken {
    int slot;
    RolloutTag tag;
  };
  // The reader only. Returns the next rollout that is not dropped; nothing after the timeout, or
  // after stop() if there is none. The reader may take several before it releases them. version:
  // the reader's policy version, for max_lag.
  std::optional<Taken> take(std::int64_t version, std::chrono::milliseconds timeout);
  void release(int slot);

  // Any process. Ends all waits, and later calls do not wait.
  void stop();
  bool stopped() const;

  // The reader only, once this writer is dead and before another process uses its number: frees the
  // slots it was filling and returns their number.
  int reclaim(int writer);

  int slots() const { return options_.slots; }
  // The reader, on the handle that it takes with.
  RingCounts counts() const;

 private:
  struct Head;
  struct Slot;
  Slot& slot(int index) const;
  std::optional<int> find_free(int writer);
  bool drains() const;
  void begin_draining();
  void end_draining();
  bool ready(int index) const;
  int oldest_ready() const;
  bool unread() const;
  bool begin_reading(int index, std::int64_t version);
  void wake_reader();
  void wake_writers();

  Head* head_;
  TrajectoryRingOptions options_;
  int next_ = 0;  // where a writer's search begins
  RingCounts counts_;
};

}  // namespace shoal
