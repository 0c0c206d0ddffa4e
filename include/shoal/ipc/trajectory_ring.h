#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>

namespace shoal {

// What goes with a rollout.
struct RolloutTag {
  std::int64_t number = 0;          // of this rollout among all, from 1 on, as they are published
  std::int64_t first_tick = 0;      // steps that its environments had taken before it
  std::int64_t policy_version = 0;  // of the parameters it was begun with
  int writer = 0;
};

// What becomes of a rollout whose policy is too old when its turn comes.
enum class StaleRollouts : std::uint8_t {
  kUse,   // it is counted, and given to the reader
  kDrop,  // it is counted, and its slot is free again, unread
};

struct TrajectoryRingOptions {
  int slots = 8;  // rollouts that are being written, wait, or are being read
  // Versions by which a rollout's policy may lie behind the reader's.
  std::int64_t max_lag = std::numeric_limits<std::int64_t>::max();
  StaleRollouts stale = StaleRollouts::kUse;
  // A writer that finds no slot free, and rollouts among them that nobody reads yet, has all
  // writers wait until the reader has released them all, or asks for more than there are: sampling
  // and learning alternate once sampling runs ahead (the rule of DPPO's queue, Heess et al., arXiv
  // 1707.02286). Otherwise it waits for any slot.
  bool drain = false;
  int spin = 0;  // polls before parking: see default_spin()
};

// What has become of the rollouts so far.
struct RingCounts {
  std::int64_t published = 0;  // numbers given out; one that a writer died with counts, too
  std::int64_t taken = 0;      // given to the reader
  std::int64_t dropped = 0;    // too old, and not given
  std::int64_t stale = 0;      // dropped or not
  std::int64_t reclaimed = 0;  // begun by writers that died before they published
};

// Hands rollouts from many writers to one reader, in shared memory, without copying them: a bounded
// ring of slots, whose contents are the caller's (`slots` places in the arena).
//
//   writer:  slot = acquire(writer)  ->  fill it, in place  ->  publish(slot)
//   reader:  rollout = take(version)  ->  read it, in place  ->  release(rollout.slot)
//
// Writers wait while no slot is free, the reader while no rollout is there. A writer's rollouts
// come in the order in which it published them, those of different writers nearly so. Everything
// written before publish() is visible after take(), everything read before release() is over before
// the slot is written again.
//
// A writer may be killed at any moment: each slot's state is a single word, so it is either
// published, or its own still, until reclaim() gives it back; whom it should have woken is woken
// then, or by the end of its timeout. Every wait ends after its timeout (of at most a day), so that
// the waiter can look for deaths.
//
// An object is a handle: each process or thread uses a copy of its own.
class TrajectoryRing {
 public:
  static std::size_t bytes(int slots);  // memory it needs, beside the contents

  // Constructs the words in `memory` (64-byte aligned, at least bytes(options.slots)); call once,
  // before the fork. Throws Error for fewer than one slot, more than 65,535, or a max_lag below 0.
  TrajectoryRing(std::byte* memory, const TrajectoryRingOptions& options);

  // Writers only. A slot to fill; nothing after the timeout, or once the ring is stopped. writer:
  // from 0, below 16,384; each has a number of its own.
  std::optional<int> acquire(int writer, std::chrono::milliseconds timeout);
  // The writer that has it. Of the tag, number and writer are filled in here.
  void publish(int slot, RolloutTag tag);

  struct Taken {
    int slot;
    RolloutTag tag;
  };
  // The reader only. The next rollout that is not dropped; nothing after the timeout, or, once the
  // ring is stopped, if there is none. It may take several before it releases them. version: of the
  // reader's own policy, for max_lag.
  std::optional<Taken> take(std::int64_t version, std::chrono::milliseconds timeout);
  void release(int slot);

  // Anybody. No wait begins from now on, and those under way end.
  void stop();
  bool stopped() const;

  // The reader only, once this writer is dead and before another one uses its number: gives back
  // the slots it was filling. How many those were.
  int reclaim(int writer);

  int slots() const { return options_.slots; }
  // The reader, of the handle it takes with.
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
  int next_ = 0;  // where a writer looks first
  RingCounts counts_;
};

}  // namespace shoal
