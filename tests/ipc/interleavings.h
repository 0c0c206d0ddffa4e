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

// A model checker: each side of a ring may interrupt the others between any two instructions.
//
// A side is a child under ptrace. Only one side moves at a time, single-stepping where another may
// interrupt. System calls are not executed: the parent answers them. So a parked side is one that
// is not moved until another wakes its word, and a lost wake-up is a state in which some sides are
// parked and none can move. The clock stands still, so every run is the same.
//
// All writes of a side go to one arena, which holds the ring, and the side's stack with its handle.
// So a snapshot is a copy of the arena and of all registers, to which the search returns for each
// alternative.
//
// At a cut any other side may continue; otherwise the sides take turns, each until it parks or
// finishes, in every order. All positions of a cut are tried. If a second cut is allowed, the
// interrupting side is itself interrupted next to each change that it makes in the ring (as in
// Musuvathi and Qadeer, "Iterative Context Bounding", PLDI 2007: few errors need more).
// Instructions execute in order: reordering by the processor is left to ThreadSanitizer and the
// other tests.
class Interleavings {
 public:
  Interleavings(const TrajectoryRingOptions& options, std::vector<Side> sides);
  Interleavings(const Interleavings&) = delete;
  Interleavings& operator=(const Interleavings&) = delete;
  ~Interleavings();

  // Prepare its state here before explore().
  TrajectoryRing& ring() { return ring_; }

  // Fails the test, with the positions of the cuts, if a side is never woken or exits early. Skips
  // it if no child can be traced.
  void explore(int most_cuts);

  // Called by a side whose wait failed.
  static void leave();

 private:
  enum class Standing { kMoves, kParked, kDone };
  struct Place {  // the state of a side
    pid_t pid = 0;
    Standing standing = Standing::kMoves;
    user_regs_struct registers{};
    std::vector<std::byte> more_registers;  // vector registers, through which a tag is copied
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
  std::vector<Place> now_;          // per side
  std::vector<std::size_t> order_;  // of turns
  std::vector<Cut> cuts_;           // that led to now_
  long ends_ = 0;                   // completed runs
};

}  // namespace shoal::ring_step_test
