#pragma once

#include <sys/types.h>
#include <sys/user.h>

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "shoal/core/arena.h"
#include "shoal/ipc/trajectory_ring.h"

namespace shoal::ring_step_test {

struct Side {
  std::string name;
  std::function<void(TrajectoryRing&)> work;
};

// Each side of a ring cuts in between any two instructions of the others.
//
// A side is a child under ptrace, and only one of them moves at a time, by one instruction where
// another may cut in. Their system calls are never made: the parent answers them. So a side that
// parks is one that is not moved until another wakes the word it parked on, and a lost wake-up is a
// state: some are parked, and nobody is left to move. The clock stands still: every run is the
// same.
//
// All that a side writes lies in one arena: the ring, and its stack with its handle. So a moment is
// a copy of the arena and of everybody's registers, to go back to for each way to go on.
//
// At a cut any other side may go on; otherwise they take turns, each until it parks or is done, in
// every order. Tried are all places for a cut, and where there may be a second one, the side that
// cut in is itself cut short, next to each change that it makes in the ring (as Musuvathi and
// Qadeer do, "Iterative Context Bounding", PLDI 2007: few errors need more). An instruction is over
// before the next one begins: what the processor may reorder is left to ThreadSanitizer and the
// other tests.
class Meeting {
 public:
  Meeting(const TrajectoryRingOptions& options, std::vector<Side> sides);
  Meeting(const Meeting&) = delete;
  Meeting& operator=(const Meeting&) = delete;
  ~Meeting();

  // To be brought, before the sides meet, to where they do so.
  TrajectoryRing& ring() { return ring_; }

  // Fails the test, and says where the cuts were, if a side is never woken, or leaves. Skips it
  // where no child can be traced.
  void explore(int most_cuts);

  // For a side that did not get what it waited for.
  static void leave();

 private:
  enum class Standing { kMoves, kParked, kDone };
  struct Place {  // of a side, in its work
    pid_t pid = 0;
    Standing standing = Standing::kMoves;
    user_regs_struct registers{};
    std::vector<std::byte> more_registers;  // the vector ones, which a tag is copied through
    std::byte* stack_end = nullptr;
    std::vector<std::byte> stack;
  };
  struct Moment {
    std::vector<std::byte> words;
    std::vector<Place> places;
  };
  struct Begin {
    const TrajectoryRing* ring;
    const Side* side;
  };

  struct Cut {
    std::size_t who;
    unsigned long long instruction;
  };

  static int begin(void* what) noexcept;
  bool start(const Side& side);
  void look_at(Place& at);
  void move(Place& at, bool single);
  void answer(Place& at);
  Moment here() const;
  void go_back_to(const Moment& moment);
  std::vector<std::size_t> movable_after(std::size_t place) const;
  void run(std::size_t place, int cuts);
  void cut(std::size_t place, int cuts);
  void end();
  std::string story() const;

  std::vector<Side> sides_;
  Arena::Plan plan_;
  Arena::Field words_, stacks_;
  Arena arena_;
  TrajectoryRing ring_;
  std::vector<Place> now_;          // of each side
  std::vector<std::size_t> order_;  // in which they take turns
  std::vector<Cut> cuts_;           // on the way to now_
  long ends_ = 0;                   // that were reached
};

}  // namespace shoal::ring_step_test
