#pragma once

#include "shoal/core/arena.h"
#include "shoal/ipc/batch_gate.h"

namespace shoal {

// A gate for two clients, with its memory.
struct GateForTwo {
  GateForTwo()
      : words(plan.add_bytes(BatchGate::bytes(2))),
        arena(plan),
        gate(arena.data(words), {.clients = 2}) {}
  Arena::Plan plan;
  Arena::Field words;
  Arena arena;
  BatchGate gate;
};

}  // namespace shoal
